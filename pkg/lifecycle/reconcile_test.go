package lifecycle_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

func TestReconcileRepairs(t *testing.T) {
	t.Parallel()
	complete := func(w *world, _ string) { w.wantComplete(instanceA) }
	for name, tc := range map[string]struct {
		damage      func(w *world, r *replica, key string)
		corrections []string
		after       func(w *world, key string)
	}{
		"nothing": {func(*world, *replica, string) {}, nil, complete},
		"never announced": {func(w *world, r *replica, _ string) {
			w.ec2.launch(instanceB)
		}, []string{"admitted"}, func(w *world, _ string) { w.wantComplete(instanceA, instanceB) }},
		"token deleted": {func(w *world, _ *replica, _ string) { w.removeClaims(instanceA) }, []string{"admitted"}, func(w *world, key string) {
			w.wantComplete(instanceA)
			if !slices.Equal(w.keysOf(instanceA), []string{key}) {
				w.t.Error("another key")
			}
		}},
		"label emptied": {func(w *world, _ *replica, key string) {
			w.editKey(key, func(s *corev1.Secret) { s.Labels[label] = "" })
		}, []string{"label_restored"}, func(w *world, key string) {
			w.wantComplete(instanceA)
			if !slices.Equal(w.keysOf(instanceA), []string{key}) {
				w.t.Error("another key")
			}
		}},
		"label removed": {func(w *world, _ *replica, key string) {
			w.editKey(key, func(s *corev1.Secret) { s.Labels = nil })
		}, []string{"label_restored"}, complete},
		"token's label removed": {func(w *world, _ *replica, _ string) {
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Labels = nil })
		}, []string{"admitted"}, func(w *world, _ string) {
			w.wantComplete(instanceA)
			if n := len(list(w.tokens)); n != 1 {
				w.t.Errorf("%d tokens", n)
			}
		}},
		"key freed by hand": {func(w *world, _ *replica, _ string) { w.freeKeys(instanceA) }, []string{"admitted"}, complete},
		"two keys, none handed out": {func(w *world, _ *replica, _ string) {
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
		}, []string{"surplus_key_released"}, func(w *world, key string) {
			w.wantComplete(instanceA)
			if !slices.Equal(w.keysOf(instanceA), []string{key}) {
				w.t.Error("not the one that the claim names is kept")
			}
		}},
		"two keys, no claim": {func(w *world, _ *replica, _ string) {
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
			w.removeClaims(instanceA)
		}, []string{"surplus_key_released", "admitted"}, complete},
		"two keys, the one that is not claimed was handed out": {func(w *world, r *replica, key string) {
			r.grant(instanceA)
			other := w.aFreeKey()
			w.editKey(other, func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
			w.pointTo(other)
		}, []string{"surplus_key_released", "admitted"}, func(w *world, key string) {
			w.wantComplete(instanceA)
			if !slices.Equal(w.keysOf(instanceA), []string{key}) {
				w.t.Error("the handed out one is not kept")
			}
		}},
		"two keys, both handed out: nothing is taken": {func(w *world, r *replica, _ string) {
			r.grant(instanceA)
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) {
				s.Labels[label] = string(instanceA)
				s.Annotations = map[string]string{handedOutTo: string(instanceA)}
			})
		}, []string{"admitted"}, func(w *world, _ string) {
			if n := len(w.keysOf(instanceA)); n != 2 {
				w.t.Errorf("%d keys are left", n)
			}
		}},
		"two keys of a joined instance": {func(w *world, r *replica, _ string) {
			r.grant(instanceA)
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
			w.join(instanceA, corev1.ConditionFalse)
		}, []string{"surplus_key_released"}, func(w *world, key string) {
			if !slices.Equal(w.keysOf(instanceA), []string{key}) {
				w.t.Errorf("keys %v", w.keysOf(instanceA))
			}
		}},
		"joined, not Ready: the token stays": {func(w *world, _ *replica, _ string) { w.join(instanceA, corev1.ConditionFalse) }, nil, complete},
		"joined, Ready": {func(w *world, r *replica, _ string) {
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionTrue)
		}, nil, func(w *world, _ string) { wantOnlyKey(w, instanceA) }},
		"joined, Ready, tags changed": {func(w *world, r *replica, _ string) {
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionTrue)
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
		}, nil, func(w *world, _ string) { wantOnlyKey(w, instanceA) }},
		"joined, not Ready, tags changed: the token stays": {func(w *world, _ *replica, _ string) {
			w.join(instanceA, corev1.ConditionFalse)
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
		}, nil, complete},
		"terminated": {func(w *world, r *replica, _ string) {
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionUnknown)
			w.ec2.setState(instanceA, instance.Terminated)
		}, []string{"retired"}, func(w *world, _ string) {
			w.wantNothing(instanceA)
			if w.hasNode(instanceA) {
				w.t.Error("the node is left")
			}
		}},
		"terminated, only a lost label": {func(w *world, _ *replica, key string) {
			w.removeClaims(instanceA)
			w.editKey(key, func(s *corev1.Secret) { s.Labels[label] = "" })
			w.ec2.setState(instanceA, instance.Terminated)
		}, []string{"retired"}, func(w *world, _ string) { w.wantNothing(instanceA) }},
		"terminated, only a node": {func(w *world, _ *replica, _ string) {
			w.removeClaims(instanceA)
			w.freeKeys(instanceA)
			w.join(instanceA, corev1.ConditionUnknown)
			w.ec2.setState(instanceA, instance.Terminated)
		}, []string{"retired"}, func(w *world, _ string) {
			if w.hasNode(instanceA) {
				w.t.Error("the node is left")
			}
		}},
		"shutting-down": {func(w *world, r *replica, _ string) {
			w.ec2.setState(instanceA, instance.ShuttingDown)
		}, []string{"closed"}, func(w *world, _ string) { wantOnlyKey(w, instanceA) }},
		"stopped: nothing is taken": {func(w *world, _ *replica, _ string) { w.ec2.setState(instanceA, instance.Stopped) }, nil, complete},
		"tags changed: nothing is taken": {func(w *world, _ *replica, _ string) {
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = map[string]string{"role": "none"} })
		}, nil, complete},
		"tags changed, label lost": {func(w *world, _ *replica, key string) {
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
			w.editKey(key, func(s *corev1.Secret) { s.Labels[label] = "" })
		}, []string{"label_restored"}, complete},
		"profiles removed: nothing is taken": {func(_ *world, r *replica, _ string) { r.SetProfiles(nil) }, nil, complete},
		"foreign things are left alone": {func(w *world, _ *replica, _ string) {
			w.makeKeys("reserved")
			w.editKey("reserved", func(s *corev1.Secret) { s.Labels[label] = "reserved" })
		}, nil, func(w *world, _ string) {
			w.wantComplete(instanceA)
			if s, err := w.keys.Get(context.Background(), "reserved", getOptions); err != nil || s.Labels[label] != "reserved" {
				w.t.Error("the reserved key was touched")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2", "key-3")
				r := w.start()
				r.admit(instanceA)
				key := w.keysOf(instanceA)[0]
				tc.damage(w, r, key)
				r.reconcile(1)
				tc.after(w, key)
				r.wantCorrections(tc.corrections...)
				w.truth.check(w)
				if name != "two keys, both handed out: nothing is taken" {
					versions := w.versions()
					r.reconcile(1)
					if !maps.Equal(versions, w.versions()) {
						t.Error("the second pass is not idle")
					}
				}
			})
		})
	}
}

// Several tokens of one instance can only come of colliding ids.
func TestReconcileLeavesOneToken(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{"same key": "", "a free key": "free"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				r := w.start()
				r.admit(instanceA)
				key := w.keysOf(instanceA)[0]
				claim := w.claimsOf(instanceA)[0]
				copied := claim.DeepCopy()
				copied.ObjectMeta = metav1.ObjectMeta{Name: "bootstrap-token-000000", Labels: claim.Labels, Annotations: claim.Annotations}
				if second == "free" {
					copied.Annotations[claimedKey] = w.aFreeKey()
				}
				if _, err := w.tokens.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				r.reconcile(1)
				w.wantComplete(instanceA)
				if !slices.Equal(w.keysOf(instanceA), []string{key}) || second == "free" && w.claimsOf(instanceA)[0].Name != claim.Name {
					t.Errorf("keys %v, claims %v", w.keysOf(instanceA), describe(w.claimsOf(instanceA)))
				}
				r.wantCorrections("surplus_token_revoked", "admitted") // it looks once more
			})
		})
	}
}

func TestUnknownInstancesAreGoneOnlyOnEvidence(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		r.grant(instanceA)
		w.ec2.vanish(instanceA)
		for range 4 { // at 0, 5, 10, 15 minutes: the last is past the grace period
			w.wantComplete(instanceA)
			r.reconcile(1)
			time.Sleep(interval)
		}
		w.wantNothing(instanceA)
		r.wantCorrections("retired")
		r.handle(instanceA, instance.Running, "gone") // a tombstone
	})
}

func TestOnePassIsNoEvidenceHoweverLate(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		w.ec2.vanish(instanceA)
		r.reconcile(1)
		w.wantComplete(instanceA)
		time.Sleep(ttl / 2)
		r.reconcile(1)
		w.wantNothing(instanceA)
	})
}

// Whatever happens in between, the row begins anew.
func TestTheRowOfUnknownsIsBroken(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*world) (after func()){
		"EC2 knows it again": func(w *world) func() { w.ec2.launch(instanceA); return func() {} },
		"an empty answer":    func(w *world) func() { w.ec2.empty = true; return func() { w.ec2.empty = false } },
		"known, not ours": func(w *world) func() {
			w.ec2.set(instance.Instance{ID: instanceA, State: instance.Running})
			return func() {}
		},
		"a Ready node": func(w *world) func() {
			w.join(instanceA, corev1.ConditionTrue)
			return func() { w.setReady(instanceA, corev1.ConditionUnknown) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.admit(instanceA)
				w.ec2.vanish(instanceA)
				r.reconcile(1)
				time.Sleep(grace)
				after := between(w)
				r.reconcile(1)
				after()
				w.ec2.vanish(instanceA)
				r.reconcile(1)
				if len(w.keysOf(instanceA)) != 1 || len(w.claimsOf(instanceA)) != 1 {
					t.Error("gone after one pass")
				}
				time.Sleep(grace)
				r.reconcile(1)
				w.wantNothing(instanceA)
			})
		})
	}
}

func TestNoEvidenceAtAll(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(*world){
		"EC2 errs":                 func(w *world) { w.ec2.err = errors.New("throttled") },
		"EC2's answers are empty":  func(w *world) { w.ec2.empty = true },
		"asked by id, EC2 errs":    func(w *world) { w.ec2.vanish(instanceA); w.ec2.unknown = errors.New("throttled") },
		"a Ready node":             func(w *world) { w.ec2.vanish(instanceA); w.join(instanceA, corev1.ConditionTrue) },
		"gone, without a NotFound": func(w *world) { w.ec2.vanish(instanceA); delete(w.ec2.vanished, instanceA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.admit(instanceA)
				r.grant(instanceA)
				silence(w)
				r.reconcile(12)
				if len(w.keysOf(instanceA)) != 1 || len(w.claimsOf(instanceA)) != 1 {
					t.Errorf("keys %v, claims %v", w.keysOf(instanceA), describe(w.claimsOf(instanceA)))
				}
				w.truth.check(w)
			})
		})
	}
}

// Without the list of the living, the dead are still found and the living keep
// what they have.
func TestReconcileWithoutTheListOfTheLiving(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		r := w.start()
		r.admit(instanceA)
		r.admit(instanceB)
		w.ec2.launch(instanceC)
		w.ec2.setState(instanceB, instance.Terminated)
		r.Lifecycle = w.startWith(blindEC2{w.ec2}).Lifecycle
		r.reconcile(1)
		w.wantComplete(instanceA)
		w.wantNothing(instanceB, instanceC)
	})
}

// blindEC2 cannot list by tags.
type blindEC2 struct{ *cloud }

func (blindEC2) Matching(context.Context, instance.Selector) ([]instance.Instance, error) {
	return nil, errors.New("unauthorized")
}

func TestReconcileStopsWhenItCannotReadTheClaims(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		w.ec2.launch(instanceA)
		r.setHook(func(context.Context, apitest.Call) error { return errors.New("down") })
		r.reconcile(1)
		if n := r.client.Count(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestTokensAreRenewedUntilTheCutoff(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		w.ec2.launch(instanceA)
		w.ec2.change(instanceA, func(i *instance.Instance) { i.LaunchTime = time.Now() })
		r.admit(instanceA)
		token := r.grant(instanceA).Token.Reveal()
		launched := time.Now()
		for time.Since(launched) < cutoff {
			time.Sleep(interval)
			r.reconcile(1)
			w.wantComplete(instanceA)
			if got := r.grant(instanceA).Token.Reveal(); got != token {
				t.Fatal("it is another token")
			}
		}
		if n := r.counter("dynk8s_reconcile_corrections_total", "token_renewed"); n < 23 || n > 50 {
			t.Errorf("renewed %v times in %v", n, cutoff)
		}
		time.Sleep(ttl + interval)
		r.reconcile(1)
		wantOnlyKey(w, instanceA)
		if got := r.counter("dynk8s_never_joined_total"); got != 1 {
			t.Errorf("%v never joined", got)
		}
		versions := w.versions()
		r.reconcile(5)
		if !maps.Equal(versions, w.versions()) {
			t.Error("it goes on")
		}
		// An instance that was never given anything is admitted, however old.
		w.makeKeys("key-2")
		w.ec2.launch(instanceB)
		w.ec2.change(instanceB, func(i *instance.Instance) { i.LaunchTime = launched })
		r.reconcile(1)
		w.wantComplete(instanceB)
	})
}

func TestAFreshTokenIsNotRenewed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		versions := w.versions()
		r.reconcile(6) // 25 minutes
		if !maps.Equal(versions, w.versions()) {
			t.Error("written")
		}
		time.Sleep(interval)
		r.reconcile(1)
		if maps.Equal(versions, w.versions()) {
			t.Error("not renewed at half of its life")
		}
	})
}

func TestShortTokensAreRenewedInTime(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		short := worker(t)
		short.Token = bootstraptoken.Settings{TTL: 6 * time.Minute}
		r.SetProfiles([]lifecycle.Profile{short})
		r.admit(instanceA)
		for range 20 {
			time.Sleep(interval)
			w.wantComplete(instanceA) // never expired
			r.reconcile(1)
		}
	})
}

func TestReplicasThatRenewAtOnceDoNotQuarrel(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r, other := w.start(), w.start()
		r.admit(instanceA)
		time.Sleep(ttl * 3 / 4)
		done := false
		r.setHook(func(_ context.Context, c apitest.Call) error {
			if c.Verb == "update" && !done {
				done = true
				other.reconcile(1)
			}
			return nil
		})
		r.reconcile(1)
		w.wantComplete(instanceA)
		other.wantCorrections("token_renewed")
		r.wantCorrections()
	})
}

func TestExhaustedAtReconcileWaitsToo(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		w.ec2.launch(instanceA)
		defer r.run()() // its first pass finds no key
		w.wantNothing(instanceA)
		w.makeKeys("key-1")
		time.Sleep(time.Second)
		w.wantComplete(instanceA)
	})
}
