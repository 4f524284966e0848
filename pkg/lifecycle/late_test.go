package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// EC2 tells the private DNS name only once the instance is running.
func TestAClaimMadeTooEarlyLearnsTheRest(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(r *replica){
		"by the next event": func(r *replica) { r.handle(instanceA, instance.Running, "admitted") },
		"by a pass":         func(r *replica) { r.reconcile(1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(_ *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				w.ec2.launch(instanceA)
				whole := w.ec2.instances[instanceA].PrivateDNSName
				w.ec2.change(instanceA, func(i *instance.Instance) { i.State, i.PrivateDNSName = instance.Pending, "" })
				r.handle(instanceA, instance.Pending, "admitted")
				if g := r.grant(instanceA); g.PrivateDNSName != "" {
					t.Fatalf("the name is %q already", g.PrivateDNSName)
				}
				token := r.grant(instanceA).Token.Reveal()
				w.ec2.change(instanceA, func(i *instance.Instance) { i.State, i.PrivateDNSName = instance.Running, whole })
				learn(r)
				g := r.grant(instanceA)
				if g.PrivateDNSName != whole || g.Token.Reveal() != token {
					t.Errorf("the name is %q and the token the same: %v", g.PrivateDNSName, g.Token.Reveal() == token)
				}
				w.wantComplete(instanceA)
			})
		})
	}
}

// A token whose label a hand removed dies with its instance all the same.
func TestAnUnlabelledTokenIsRevokedWithItsInstance(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, r *replica){
		"shutting-down": func(_ *world, r *replica) { r.handle(instanceA, instance.ShuttingDown, "closed") },
		"terminated":    func(_ *world, r *replica) { r.handle(instanceA, instance.Terminated, "retired") },
		"joined": func(w *world, r *replica) {
			defer r.run()()
			w.join(instanceA, corev1.ConditionTrue)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.admit(instanceA)
				w.editClaim(instanceA, func(s *corev1.Secret) { delete(s.Labels, label) })
				end(w, r)
				if left := list(w.tokens); len(left) != 0 {
					t.Errorf("%d tokens are left", len(left))
				}
			})
		})
	}
}

// A key is freed while EC2 does not answer: the waiting instance has it soon
// after EC2 does.
func TestWakingIsTriedAgain(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		defer r.run()()
		r.admit(instanceA)
		w.ec2.launch(instanceB)
		r.wantExhausted(instanceB)
		fail := func(err error) {
			w.ec2.mu.Lock()
			defer w.ec2.mu.Unlock()
			w.ec2.err = err
		}
		fail(errors.New("throttled"))
		w.ec2.setState(instanceA, instance.Terminated)
		r.handle(instanceA, instance.Terminated, "retired")
		synctest.Wait()
		w.wantNothing(instanceB)
		fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.wantComplete(instanceB)
	})
}

// An instance whose Node is Ready fetches nothing any more, also before its
// token is revoked.
func TestNothingIsGrantedOnceTheNodeIsReady(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		w.join(instanceA, corev1.ConditionFalse)
		r.grant(instanceA)
		w.setReady(instanceA, corev1.ConditionTrue)
		if _, err := r.Grant(context.Background(), instanceA); !errors.Is(err, lifecycle.ErrClosed) {
			t.Errorf("grant: %v", err)
		}
	})
}

// panickyEC2 panics at every question about what matches.
type panickyEC2 struct{ *cloud }

func (panickyEC2) Matching(context.Context, instance.Selector) ([]instance.Instance, error) {
	panic("token " + privatePart)
}

func TestAPanicEndsNoLoop(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		r := w.startWith(panickyEC2{w.ec2})
		defer r.run()()
		time.Sleep(3 * interval) // several passes
		synctest.Wait()
		w.makeKeys("key-1")
		r.admit(instanceA)
		w.wantComplete(instanceA)
		w.wantNoSecretsLogged()
	})
}

// A hand swaps the labels of two keys that were handed out: each instance keeps
// the key it uses, and is given no other.
func TestSwappedLabelsGiveNobodyAnotherKey(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(r *replica){
		"then passes": func(r *replica) { r.reconcile(1) },
		"then events": func(r *replica) { _, _ = r.Handle(context.Background(), event(instanceA, instance.Running)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2", "key-3", "key-4")
				r := w.start()
				r.admit(instanceA)
				r.admit(instanceB)
				used := map[instance.ID]string{}
				for _, id := range []instance.ID{instanceA, instanceB} {
					used[id] = keyOf(r.grant(id).WireGuardConfig)
				}
				swap := func(key string, to instance.ID) {
					w.editKey(key, func(s *corev1.Secret) { s.Labels[label] = string(to) })
				}
				swap(used[instanceA], instanceB)
				swap(used[instanceB], instanceA)
				for range 3 {
					next(r)
					for id, key := range used { // they ask all the time
						g, err := r.Grant(context.Background(), id)
						if now := keyOf(g.WireGuardConfig); err == nil && now != key {
							t.Errorf("%s was handed %s and then %s", id, key, now)
						}
					}
				}
				r.reconcile(2)
				w.wantComplete(instanceA, instanceB)
				for id, key := range used {
					if now := keyOf(r.grant(id).WireGuardConfig); now != key {
						t.Errorf("%s was handed %s in the end, and %s before", id, now, key)
					}
				}
			})
		})
	}
}
