package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// replaceClaim puts an ordinary token, or none, in the place of the reissued one.
func (w *world) replaceClaim(id instance.ID, f func(*corev1.Secret)) {
	w.t.Helper()
	for _, s := range w.claimsOf(id) {
		if err := w.tokens.Delete(context.Background(), s.Name, deleteOptions); err != nil {
			w.t.Fatal(err)
		}
		s.ObjectMeta = metav1.ObjectMeta{Name: s.Name, Labels: s.Labels, Annotations: s.Annotations}
		f(&s)
		if _, err := w.tokens.Create(context.Background(), &s, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func ordinary(s *corev1.Secret) { delete(s.Annotations, reissued) }

// The node is Ready. What the cache says and what the token says may differ.
func TestGrantToAJoinedInstance(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(*world, *replica)
		want    error
		noCalls bool
	}{
		"never reissued": {func(*world, *replica) {}, lifecycle.ErrClosed, true},
		"an ordinary token that is not revoked yet": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.replaceClaim(instanceA, ordinary)
		}, lifecycle.ErrClosed, true},
		"reissued": {func(_ *world, r *replica) { r.reissue(instanceA) }, nil, false},
		"reissued, not known to the cache yet": {func(_ *world, r *replica) {
			r.tokenView.Hold()
			r.reissue(instanceA)
		}, lifecycle.ErrClosed, true},
		"reissued, the token gone, not known to the cache yet": {func(w *world, r *replica) {
			r.reissue(instanceA)
			r.tokenView.Hold()
			w.removeClaims(instanceA)
		}, lifecycle.ErrNotAllocated, false},
		"reissued, the token gone": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.removeClaims(instanceA)
		}, lifecycle.ErrClosed, true},
		"reissued, another token there, not known to the cache yet": {func(w *world, r *replica) {
			r.reissue(instanceA)
			r.tokenView.Hold()
			w.replaceClaim(instanceA, ordinary)
		}, lifecycle.ErrClosed, false},
		"reissued, ended by a hand, not known to the cache yet": {func(w *world, r *replica) {
			r.reissue(instanceA)
			r.tokenView.Hold()
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Annotations[reissued] = time.Now().UTC().Format(time.RFC3339) })
		}, lifecycle.ErrClosed, false},
		"reissued, the token expired by a hand": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Data["expiration"] = []byte(time.Now().UTC().Format(time.RFC3339)) })
		}, lifecycle.ErrNotAllocated, false},
		"reissued again, not known to the cache yet": {func(_ *world, r *replica) {
			r.reissue(instanceA)
			r.tokenView.Hold()
			time.Sleep(ttl / 2)
			r.reissue(instanceA)
		}, nil, false},
		"reissued again, past the first's end, not known to the cache yet": {func(_ *world, r *replica) {
			r.reissue(instanceA)
			r.tokenView.Hold()
			time.Sleep(ttl / 2)
			r.reissue(instanceA)
			time.Sleep(ttl / 2)
		}, lifecycle.ErrClosed, true},
		"reissued, until nonsense": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Annotations[reissued] = "ever" })
		}, lifecycle.ErrClosed, true},
		"reissued, the token's label lost": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Labels = nil })
		}, lifecycle.ErrClosed, true},
		"reissued, on its way out": {func(w *world, r *replica) {
			r.reissue(instanceA)
			w.ec2.setState(instanceA, instance.ShuttingDown)
			r.handle(instanceA, instance.ShuttingDown, "closed")
		}, lifecycle.ErrClosed, true},
		"reissued for another": {func(_ *world, r *replica) { r.reissue(instanceB) }, lifecycle.ErrClosed, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				r := w.start()
				r.admit(instanceA)
				w.ec2.launch(instanceB)
				r.joinAndClose(instanceA)
				tc.prepare(w, r)
				r.client.Forget()
				g, err := r.Grant(t.Context(), instanceA)
				if !errors.Is(err, tc.want) || (err == nil) != (g.WireGuardConfig != nil) || tc.noCalls != (r.client.Count() == 0) {
					t.Errorf("%v, %v, calls %v", g, err, r.client.Calls())
				}
				if open := r.Open(instanceA); tc.noCalls != errors.Is(open, lifecycle.ErrClosed) {
					t.Errorf("open: %v", open)
				}
				r.tokenView.Release()
				w.truth.check(w)
			})
		})
	}
}

// A fetch that the token itself refuses leaves no mark on the key.
func TestARefusedFetchMarksNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		r := w.start()
		w.join(instanceA, corev1.ConditionTrue)
		r.reissue(instanceA)
		r.tokenView.Hold()
		w.replaceClaim(instanceA, ordinary)
		r.client.Forget()
		r.wantClosed(instanceA)
		if n := r.client.Count("update"); n != 0 {
			t.Errorf("%d updates", n)
		}
	})
}

func TestACacheThatCatchesUpOpens(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		w.makeKeys("key-1")
		r, other := w.start(), w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		other.tokenView.Hold()
		r.reissue(instanceA)
		other.wantClosed(instanceA)
		other.tokenView.Release()
		other.grant(instanceA)
	})
}

// Something happens before any call of a fetch that a reissue opened.
func TestAReissuedGrantUnderOurFeet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meddle func(*world, *replica)
		want   error // after the first call, or any; nil: some error
	}{
		"the reissue lapses":   {func(*world, *replica) { time.Sleep(ttl) }, nil},
		"its end is announced": {func(_ *world, r *replica) { r.bury(instanceA) }, nil},
		"its end is announced, and nothing revoked": {func(_ *world, r *replica) {
			r.setHook(func(context.Context, apitest.Call) error { return errors.New("down") })
			_, _ = r.Handle(context.Background(), event(instanceA, instance.ShuttingDown))
			r.setHook(nil)
		}, lifecycle.ErrClosed},
		"the token is revoked":         {func(w *world, _ *replica) { w.removeClaims(instanceA) }, lifecycle.ErrNotAllocated},
		"the token is an ordinary one": {func(w *world, _ *replica) { w.replaceClaim(instanceA, ordinary) }, nil},
		"it is reissued":               {func(_ *world, r *replica) { r.reissue(instanceA) }, lifecycle.ErrNotAllocated},
		"the node is Ready anew, and the token revoked": {func(w *world, r *replica) {
			time.Sleep(time.Second)
			w.setReady(instanceA, corev1.ConditionTrue)
			r.reconcile(1)
		}, nil},
	} {
		for _, joined := range []string{"joined", "joined, not Ready any more"} {
			t.Run(name+", "+joined, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					r := w.start()
					reissueStarts[joined](w, r)
					r.reissue(instanceA)
					secret := w.secretsOf(instanceA)[0]
					reached := false
					r.setHook(before(n, func() { reached = true; r.setHook(nil); tc.meddle(w, r) }))
					g, err := r.Grant(t.Context(), instanceA)
					r.setHook(nil)
					switch {
					case !reached || n == 0 && name == "it is reissued":
						if err != nil {
							t.Errorf("refused: %v", err)
						}
					case err == nil && tc.want == nil && slices.Contains(w.secretsOf(instanceA), secret) && joined != "joined":
						// Without a Ready node nothing of it closes.
					case err == nil:
						t.Errorf("given all the same, before call %d", n)
					case n > 0 && tc.want != nil && !errors.Is(err, tc.want):
						t.Errorf("%v, want %v", err, tc.want)
					}
					if err != nil && g.WireGuardConfig != nil {
						t.Error("an error, and something given")
					}
					w.truth.check(w)
					return reached
				})
			})
		}
	}
}

// bury tells the replica of the instance's end.
func (r *replica) bury(id instance.ID) {
	r.w.ec2.setState(id, instance.ShuttingDown)
	r.handleUntilSettled(id, instance.ShuttingDown)
}

// The node of an instance with an ordinary token becomes Ready before any call
// of a fetch, while nobody has revoked the token.
func TestANodeThatBecomesReadyDuringAGrantClosesIt(t *testing.T) {
	t.Parallel()
	everyCall(t, func(t *testing.T, w *world, n int) bool {
		r := w.start()
		r.admit(instanceA)
		w.join(instanceA, corev1.ConditionFalse)
		reached := false
		r.setHook(before(n, func() { reached = true; w.setReady(instanceA, corev1.ConditionTrue) }))
		if g, err := r.Grant(t.Context(), instanceA); reached && !errors.Is(err, lifecycle.ErrClosed) {
			t.Errorf("%v, %v", g, err)
		}
		return reached
	})
}

// It joined by the reissued token: what is read of the node, not the revocation,
// closes.
func TestANodeThatBecomesReadyByAReissueClosesAtOnce(t *testing.T) {
	t.Parallel()
	for name, rejoin := range map[string]func(*world, *replica){
		"first join":   func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionTrue) },
		"became Ready": func(w *world, r *replica) { w.setReady(instanceA, corev1.ConditionTrue) },
		"replaced": func(w *world, _ *replica) {
			if err := w.nodes.Delete(context.Background(), string(instanceA), deleteOptions); err != nil {
				w.t.Error(err)
			}
			w.join(instanceA, corev1.ConditionTrue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyCall(t, func(t *testing.T, w *world, n int) bool {
				r := w.start()
				switch name {
				case "became Ready":
					w.join(instanceA, corev1.ConditionFalse)
				case "replaced":
					w.join(instanceA, corev1.ConditionTrue)
				}
				r.reissue(instanceA)
				r.grant(instanceA)
				time.Sleep(time.Minute)
				reached := false
				r.setHook(before(n, func() { reached = true; rejoin(w, r) }))
				if g, err := r.Grant(t.Context(), instanceA); reached && !errors.Is(err, lifecycle.ErrClosed) {
					t.Errorf("%v, %v", g, err)
				}
				return reached
			})
		})
	}
}

// The cache still holds a reissued token where there is an ordinary one: at no
// point of a fetch does it keep a Ready node from closing.
func TestAnOldReissueInTheCacheKeepsNothingOpen(t *testing.T) {
	t.Parallel()
	everyCall(t, func(t *testing.T, w *world, n int) bool {
		r := w.start()
		r.admit(instanceA)
		r.grant(instanceA)
		w.join(instanceA, corev1.ConditionFalse)
		r.reissue(instanceA)
		r.tokenView.Hold()
		w.replaceClaim(instanceA, ordinary)
		reached := false
		r.setHook(before(n, func() { reached = true; w.setReady(instanceA, corev1.ConditionTrue) }))
		if g, err := r.Grant(t.Context(), instanceA); reached && !errors.Is(err, lifecycle.ErrClosed) {
			t.Errorf("%v, %v", g, err)
		}
		return reached
	})
}

// Without anybody to tell of reissues, a Ready node closes whatever the token.
func TestWithoutReissuesAReadyNodeCloses(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		r.reissue(instanceA)
		keys := wireguardkey.NewPool(r.client.Secrets(namespace), r.keyView.Indexer(), wireguardkey.Config{Namespace: namespace})
		without := lifecycle.New(w.ec2, bootstraptoken.NewIssuer(r.client.Secrets(metav1.NamespaceSystem)), keys,
			node.New(r.client.Nodes(), r.nodeView.Indexer()), lifecycle.Config{})
		if _, err := without.Grant(t.Context(), instanceA); !errors.Is(err, lifecycle.ErrClosed) || without.Reissued(instanceA) {
			t.Errorf("%v", err)
		}
	})
}
