package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// before returns a hook that does something before call n, counted from zero.
func before(n int, f func()) apitest.Hook {
	var count atomic.Int64
	return func(context.Context, apitest.Call) error {
		if count.Add(1)-1 == int64(n) {
			f()
		}
		return nil
	}
}

var errCrash = errors.New("the process was killed")

// fault is what may happen at one call: the nth call's error, and whether the
// process ends there.
type fault struct {
	name  string
	err   error
	crash bool
}

var faults = []fault{
	{"500", apierrors.NewInternalError(errors.New("etcd is away")), false},
	{"429", apierrors.NewTooManyRequests("later", 1), false},
	{"409", apierrors.NewConflict(corev1.Resource("secrets"), "x", errors.New("modified")), false},
	{"timeout", context.DeadlineExceeded, false},
	{"applied, answer lost", apitest.AnswerLost(apierrors.NewTimeoutError("late", 1)), false},
	{"killed before", errCrash, true},
	{"killed after", apitest.AnswerLost(errCrash), true},
}

// starts are the states in which an admission may find an instance.
var starts = map[string]func(*world, *replica){
	"new":                       func(*world, *replica) {},
	"claim only":                func(w *world, r *replica) { r.admit(instanceA); w.freeKeys(instanceA) },
	"key only":                  func(w *world, r *replica) { r.admit(instanceA); w.removeClaims(instanceA) },
	"key handed out, no claim":  func(w *world, r *replica) { r.admit(instanceA); r.grant(instanceA); w.removeClaims(instanceA) },
	"complete":                  func(_ *world, r *replica) { r.admit(instanceA) },
	"expired":                   func(_ *world, r *replica) { r.admit(instanceA); time.Sleep(2 * ttl) },
	"claim names nothing":       func(w *world, r *replica) { r.admit(instanceA); w.freeKeys(instanceA); w.pointTo("") },
	"claim names a missing key": func(w *world, r *replica) { r.admit(instanceA); w.freeKeys(instanceA); w.pointTo("none") },
	"claim names another's key": func(w *world, r *replica) {
		r.admit(instanceA)
		w.freeKeys(instanceA)
		r.admit(instanceB)
		w.pointTo(w.keysOf(instanceB)[0])
	},
	"claim names another than the held": func(w *world, r *replica) { r.admit(instanceA); w.pointTo(w.aFreeKey()) },
	"two keys": func(w *world, r *replica) {
		r.admit(instanceA)
		w.editKey(w.aFreeKey(), func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
	},
	"two keys, the second handed out": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		other := w.aFreeKey()
		w.editKey(other, func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
		w.pointTo(other)
	},
	"claim's label removed": func(w *world, r *replica) {
		r.admit(instanceA)
		w.editClaim(instanceA, func(s *corev1.Secret) { s.Labels = nil })
	},
	"claim's label emptied, and expired": func(w *world, r *replica) {
		r.admit(instanceA)
		w.editClaim(instanceA, func(s *corev1.Secret) { s.Labels[label] = "" })
		time.Sleep(2 * ttl)
	},
	"key's label emptied": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		w.truth.labelsMove = true
		w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels[label] = "" })
	},
	"key's label removed, no claim": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		w.truth.labelsMove = true
		w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels = nil })
		w.removeClaims(instanceA)
	},
}

// freeKeys frees the keys of the instance as if the label had never been set.
func (w *world) freeKeys(id instance.ID) {
	for _, name := range w.keysOf(id) {
		w.editKey(name, func(s *corev1.Secret) { s.Labels[label] = ""; s.Annotations = nil })
	}
}

func (w *world) aFreeKey() string {
	for _, s := range list(w.keys) {
		if s.Labels[label] == "" && len(s.Annotations[allocatedTo]) == 0 {
			return s.Name
		}
	}
	w.t.Fatal("no key is free")
	return ""
}

// pointTo makes instance A's claim name a key.
func (w *world) pointTo(key string) {
	w.editClaim(instanceA, func(s *corev1.Secret) {
		if s.Annotations[claimedKey] = key; key == "" {
			delete(s.Annotations, claimedKey)
		}
	})
}

// everyCall runs f for each n, until it reports that there was no call n.
func everyCall(t *testing.T, f func(t *testing.T, w *world, n int) (reached bool)) {
	t.Helper()
	for n := 0; ; n++ {
		reached := false
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1", "key-2", "key-3", "key-4")
			w.ec2.launch(instanceA)
			w.ec2.launch(instanceB)
			reached = f(t, w, n)
			w.truth.check(w)
			if t.Failed() {
				t.Logf("this was call %d", n)
			}
		})
		if t.Failed() || !reached {
			return
		}
		if n > 200 {
			t.Fatal("no end of calls")
		}
	}
}

// failAt lets call n of the replica fail, and all later ones too if it crashes.
func (r *replica) failAt(n int, err error, crash bool) (reached func() bool) {
	var count atomic.Int64
	r.setHook(func(context.Context, apitest.Call) error {
		switch c := int(count.Add(1)) - 1; {
		case c == n:
			return err
		case c > n && crash:
			return errCrash
		}
		return nil
	})
	return func() bool { return int(count.Load()) > n }
}

// survivor is who goes on after the fault.
func (r *replica) survivor(crashed bool) *replica {
	r.setHook(nil)
	if crashed {
		return r.w.start()
	}
	return r
}

func TestAdmissionSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for start, prepare := range starts {
		for _, fault := range faults {
			t.Run(start+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					r := w.start()
					prepare(w, r)
					reached := r.failAt(n, fault.err, fault.crash)
					_, err := r.Handle(t.Context(), event(instanceA, instance.Running))
					if reached() && fault.crash && err == nil {
						t.Error("settled although it was killed")
					}
					w.truth.check(w)
					r = r.survivor(fault.crash)
					if got := r.handleUntilSettled(instanceA, instance.Running); got != "admitted" {
						t.Errorf("then: %q", got)
					}
					w.truth.check(w)
					r.grant(instanceA)
					r.reconcile(2)
					w.wantComplete(instanceA)
					r.grant(instanceA)
					return reached()
				})
			})
		}
	}
}

func TestAdmissionSurvivesTheLossOfItsClaimAtEveryCall(t *testing.T) {
	t.Parallel()
	for start, prepare := range starts {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			everyCall(t, func(t *testing.T, w *world, n int) bool {
				r := w.start()
				prepare(w, r)
				reached := false
				r.setHook(before(n, func() { reached = true; w.removeClaims(instanceA) }))
				_, _ = r.Handle(t.Context(), event(instanceA, instance.Running))
				r.setHook(nil)
				w.truth.check(w)
				// Whatever the message's fate, the next pass completes it.
				r.reconcile(2)
				w.wantComplete(instanceA)
				r.grant(instanceA)
				return reached
			})
		})
	}
}

// The claim goes after the key was labelled: the label goes back, unless the key
// was handed out meanwhile.
func TestAdmissionWithoutAClaimTakesItsLabelBack(t *testing.T) {
	t.Parallel()
	for _, handedOut := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			w.ec2.launch(instanceA)
			r, other := w.start(), w.start()
			done := false
			r.setHook(func(_ context.Context, c apitest.Call) error {
				if c.Verb == "get" && c.Namespace == metav1.NamespaceSystem && !done {
					done = true
					if handedOut {
						other.grant(instanceA)
					}
					w.removeClaims(instanceA)
				}
				return nil
			})
			if got, err := r.Handle(t.Context(), event(instanceA, instance.Running)); err == nil || !done {
				t.Errorf("settled as %q, interrupted %v", got, done)
			}
			if handedOut {
				wantOnlyKey(w, instanceA)
			} else {
				w.wantNothing(instanceA)
			}
		})
	}
}

func TestRetirementSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*world, *replica){
		"admitted":   func(_ *world, r *replica) { r.admit(instanceA) },
		"handed out": func(_ *world, r *replica) { r.admit(instanceA); r.grant(instanceA) },
		"joined": func(w *world, r *replica) {
			r.admit(instanceA)
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionTrue)
		},
		"two keys, one lost": func(w *world, r *replica) {
			r.admit(instanceA)
			r.grant(instanceA)
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) { s.Annotations = map[string]string{allocatedTo: string(instanceA)} })
		},
	}
	for start, prepare := range ends {
		for _, fault := range faults {
			for _, how := range []string{"event", "reconcile"} {
				t.Run(start+", "+fault.name+", by "+how, func(t *testing.T) {
					t.Parallel()
					everyCall(t, func(t *testing.T, w *world, n int) bool {
						r := w.start()
						prepare(w, r)
						w.ec2.setState(instanceA, instance.Terminated)
						reached := r.failAt(n, fault.err, fault.crash)
						if how == "event" {
							_, _ = r.Handle(t.Context(), event(instanceA, instance.Terminated))
						} else {
							r.reconcile(1)
						}
						r = r.survivor(fault.crash)
						if how == "event" {
							r.handleUntilSettled(instanceA, instance.Terminated)
						} else {
							r.reconcile(1)
						}
						w.wantNothing(instanceA)
						if w.hasNode(instanceA) {
							t.Error("the node is left")
						}
						return reached()
					})
				})
			}
		}
	}
}

func TestGrantSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			everyCall(t, func(t *testing.T, w *world, n int) bool {
				r := w.start()
				r.admit(instanceA)
				reached := r.failAt(n, fault.err, fault.crash)
				if g, err := r.Grant(t.Context(), instanceA); err == nil {
					w.truth.given(w, instanceA, g)
				} else if g.WireGuardConfig != nil || g.Token.ID() != "" {
					t.Error("an error, and something given all the same")
				}
				r = r.survivor(fault.crash)
				w.truth.check(w)
				r.grant(instanceA)
				w.wantComplete(instanceA)
				return reached()
			})
		})
	}
}

func TestReconcileSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for start, prepare := range starts {
		for _, fault := range faults {
			t.Run(start+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					w.ec2.vanish(instanceB) // one at a time, so that calls come in one order
					r := w.start()
					prepare(w, r)
					w.ec2.vanish(instanceB)
					reached := r.failAt(n, fault.err, fault.crash)
					r.reconcile(1)
					w.truth.check(w)
					r = r.survivor(fault.crash)
					r.reconcile(2)
					w.wantComplete(instanceA)
					r.grant(instanceA)
					return reached()
				})
			})
		}
	}
}

func TestRemovedKeySecretIsReplaced(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		r.admit(instanceA)
		first := w.keysOf(instanceA)[0]
		if err := w.keys.Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.reconcile(1)
		w.wantComplete(instanceA)
		if keys := w.keysOf(instanceA); slices.Contains(keys, first) {
			t.Error("the old one is back")
		}
	})
}

// A key in use must not be replaced by a second one because the operator broke
// its Secret.
func TestAHandedOutKeyThatBecameUnusableIsNotReplaced(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		r := w.start()
		r.admit(instanceA)
		r.grant(instanceA)
		key := w.keysOf(instanceA)[0]
		w.editKey(key, func(s *corev1.Secret) { s.Data["wireguard-config"] = []byte("broken") })
		for i := range 4 {
			if got, err := r.Handle(t.Context(), event(instanceA, instance.Running)); err == nil {
				t.Errorf("settled as %q", got)
			}
			if i == 2 {
				w.removeClaims(instanceA)
			}
			r.reconcile(1)
			if keys := w.keysOf(instanceA); !slices.Equal(keys, []string{key}) {
				t.Fatalf("keys %v", keys)
			}
		}
		w.editKey(key, func(s *corev1.Secret) { s.Data["wireguard-config"] = []byte(configOf(key)) })
		r.reconcile(1)
		w.wantComplete(instanceA)
		r.grant(instanceA)
	})
}

// An unmarked one is replaced.
func TestAnUnusableKeyThatWasNotHandedOutIsReplaced(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		r := w.start()
		r.admit(instanceA)
		key := w.keysOf(instanceA)[0]
		w.editKey(key, func(s *corev1.Secret) { s.Data = nil })
		r.admit(instanceA)
		r.reconcile(1)
		w.wantComplete(instanceA)
		if got := keyOf(r.grant(instanceA).WireGuardConfig); got == key {
			t.Error("the broken one was given")
		}
	})
}

func TestAPIServerThatIsDownLosesNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		down := errors.New("dial tcp: connection refused")
		r := w.start()
		failing := func(context.Context, apitest.Call) error { return down }
		r.setHook(failing)
		for _, s := range []instance.State{instance.Running, instance.ShuttingDown, instance.Terminated} {
			other := w.start() // each has tombstones of its own
			other.setHook(failing)
			if got, err := other.Handle(t.Context(), event(instanceA, s)); !errors.Is(err, down) || got != "" {
				t.Errorf("%s: %q, %v", s, got, err)
			}
		}
		if _, err := r.Grant(t.Context(), instanceA); !errors.Is(err, down) {
			t.Errorf("grant: %v", err)
		}
		r.reconcile(1)
		r.setHook(nil)
		r.reconcile(1)
		w.wantComplete(instanceA)
	})
}
