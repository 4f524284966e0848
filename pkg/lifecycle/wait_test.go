package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// run runs the replica until the test ends.
func (r *replica) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			r.w.t.Errorf("run: %v", err)
		}
	}
}

func (r *replica) wantExhausted(id instance.ID) {
	r.w.t.Helper()
	got, err := r.Handle(context.Background(), event(id, instance.Running))
	var delayed interface{ RetryAfter() time.Duration }
	if got != "" || !errors.Is(err, wireguardkey.ErrExhausted) || outcome(err) != "exhausted" ||
		!errors.As(err, &delayed) || delayed.RetryAfter() != 2*time.Minute {
		r.w.t.Errorf("%q, %v; want exhausted", got, err)
	}
}

func TestNoTokenWithoutAKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		w.ec2.launch(instanceA)
		r.wantExhausted(instanceA)
		w.wantNothing(instanceA)
		if n := r.client.Count("create", "update", "delete"); n != 0 {
			t.Errorf("%d writes", n)
		}
		if got := strings.Count(w.log.String(), "pool is exhausted"); got != 1 {
			t.Errorf("logged %d times", got)
		}
	})
}

func TestATokenGoesWhenItsKeyIsLostAndNoneIsFree(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		w.ec2.launch(instanceB)
		w.claimsPointedAt(instanceB)
		r.wantExhausted(instanceA)
		w.wantNothing(instanceA)
	})
}

func TestAFreedKeyWakesAtOnce(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*world, *replica){
		"released": func(w *world, r *replica) {
			w.ec2.setState(instanceA, instance.Terminated)
			r.handle(instanceA, instance.Terminated, "retired")
		},
		"added": func(w *world, _ *replica) { w.makeKeys("key-2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.admit(instanceA)
				defer r.run()()
				for _, id := range []instance.ID{instanceB, instanceC} {
					w.ec2.launch(id)
					r.wantExhausted(id)
					time.Sleep(time.Second)
				}
				start := time.Now()
				free(w, r)
				synctest.Wait()
				w.wantComplete(instanceB) // it has waited longest
				w.wantNothing(instanceC)
				if time.Since(start) != 0 {
					t.Error("it took its time")
				}
			})
		})
	}
}

// The key is freed, and its signal passes, between the admission's look at the
// pool and its taking a place in the queue.
func TestAKeyFreedDuringTheAdmissionIsNotMissed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		w.editKey("key-1", func(s *corev1.Secret) { s.Labels[label] = "reserved" })
		freed := false
		w.log.before = func(line string) {
			if strings.Contains(line, "pool is exhausted") && !freed {
				freed = true
				w.editKey("key-1", func(s *corev1.Secret) { s.Labels[label] = "" })
				synctest.Wait() // the signal is heard, and nobody waits
			}
		}
		r := w.start()
		defer r.run()()
		w.ec2.launch(instanceA)
		r.handle(instanceA, instance.Running, "admitted")
		if !freed {
			t.Error("the pool was not exhausted")
		}
		w.wantComplete(instanceA)
	})
}

// One profile's part of the pool is used up; a key of the other's is freed.
func TestWaitingBehindAnotherProfile(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		var profiles []lifecycle.Profile
		for _, site := range []string{"east", "west"} {
			p := profile(t, site, instance.Condition{Key: "site", Values: []string{site}})
			p.Keys = labels.SelectorFromSet(labels.Set{"site": site})
			profiles = append(profiles, p)
		}
		r.SetProfiles(profiles)
		defer r.run()()
		for id, site := range map[instance.ID]string{instanceA: "east", instanceB: "east", instanceC: "west"} {
			w.ec2.launch(id)
			w.ec2.change(id, func(i *instance.Instance) { i.Tags = map[string]string{"site": site} })
		}
		for _, id := range []instance.ID{instanceA, instanceB, instanceC} {
			r.wantExhausted(id)
		}
		w.makeKeys("key-1")
		w.editKey("key-1", func(s *corev1.Secret) { s.Labels["site"], s.Labels[label] = "west", "reserved" })
		w.editKey("key-1", func(s *corev1.Secret) { s.Labels[label] = "" })
		synctest.Wait()
		w.wantComplete(instanceC)
		w.wantNothing(instanceA, instanceB)
	})
}

func TestWhoNeedNotWaitAnyMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end   func(*world, *replica)
		stays bool
	}{
		"terminated":       {func(w *world, r *replica) { r.handleUntilSettled(instanceA, instance.Terminated) }, false},
		"shutting down":    {func(w *world, r *replica) { r.handleUntilSettled(instanceA, instance.ShuttingDown) }, false},
		"EC2 says stopped": {func(w *world, _ *replica) { w.ec2.setState(instanceA, instance.Stopped) }, false},
		"joined":           {func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionFalse) }, false},
		"not ours any more": {func(w *world, _ *replica) {
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = map[string]string{"role": "none"} })
		}, false},
		"EC2 errs":           {func(w *world, _ *replica) { w.ec2.err = errors.New("throttled") }, true},
		"EC2's empty answer": {func(w *world, _ *replica) { w.ec2.empty = true }, true},
		"API server errs": {func(_ *world, r *replica) {
			r.setHook(func(context.Context, apitest.Call) error { return errors.New("down") })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.ec2.launch(instanceA)
				r := w.start()
				defer r.run()()
				r.wantExhausted(instanceA)
				tc.end(w, r)
				w.makeKeys("key-1")
				synctest.Wait()
				w.wantNothing(instanceA)
				// What comes later shows who is still in the queue.
				r.setHook(nil)
				w.ec2.err, w.ec2.empty = nil, false
				lookups := w.ec2.count()
				w.makeKeys("key-2")
				synctest.Wait()
				if tc.stays {
					w.wantComplete(instanceA)
				} else if n := w.ec2.count() - lookups; n != 0 {
					t.Errorf("still looked up")
				}
			})
		})
	}
}

func (c *cloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookups
}

func TestGivenUpInstancesDoNotWait(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.ec2.launch(instanceA)
		r := w.start()
		r.wantExhausted(instanceA)
		w.ec2.vanish(instanceA)
		e := event(instanceA, instance.Running)
		e.Time = time.Now().Add(-time.Hour)
		if got, err := r.Handle(t.Context(), e); got != "gone" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		defer r.run()()
		lookups := w.ec2.count()
		w.makeKeys("key-1")
		synctest.Wait()
		if n := w.ec2.count() - lookups; n != 0 {
			t.Error("still looked up")
		}
	})
}

func TestRunReconcilesAtOnceAndEveryInterval(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		w.ec2.launch(instanceA)
		r := w.start()
		stop := r.run()
		w.wantComplete(instanceA)
		w.ec2.launch(instanceB)
		time.Sleep(interval)
		synctest.Wait()
		w.wantComplete(instanceB)
		stop()
		w.ec2.launch(instanceC)
		time.Sleep(2 * interval)
		w.wantNothing(instanceC)
	})
}

func TestTheTokenOfAJoinedInstanceIsRevokedAtOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		defer r.run()()
		key := keyOf(r.grant(instanceA).WireGuardConfig)
		time.Sleep(90 * time.Second)
		w.join(instanceA, corev1.ConditionFalse)
		synctest.Wait()
		if len(w.claimsOf(instanceA)) != 1 {
			t.Error("revoked before it is Ready")
		}
		w.setReady(instanceA, corev1.ConditionTrue)
		synctest.Wait()
		if !slices.Equal(w.keysOf(instanceA), []string{key}) || len(w.claimsOf(instanceA)) != 0 {
			t.Errorf("keys %v, claims %v", w.keysOf(instanceA), describe(w.claimsOf(instanceA)))
		}
		if got := r.counter("dynk8s_join_seconds"); got != 1 {
			t.Errorf("%v joins observed", got)
		}
		if got := r.counter("dynk8s_never_joined_total"); got != 0 {
			t.Errorf("%v never joined", got)
		}
		// A node that flaps does no harm.
		w.setReady(instanceA, corev1.ConditionUnknown)
		w.setReady(instanceA, corev1.ConditionTrue)
		synctest.Wait()
		if got := r.counter("dynk8s_join_seconds"); got != 1 {
			t.Errorf("%v joins observed", got)
		}
	})
}

func TestAFailedRevocationAfterAJoinIsRepaired(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		defer r.run()()
		for _, verb := range []string{"list", "delete"} {
			r.setHook(func(_ context.Context, c apitest.Call) error {
				if c.Verb == verb {
					return errors.New("down")
				}
				return nil
			})
			if w.hasNode(instanceA) {
				w.setReady(instanceA, corev1.ConditionFalse)
				w.setReady(instanceA, corev1.ConditionTrue)
			} else {
				w.join(instanceA, corev1.ConditionTrue)
			}
			synctest.Wait()
			if len(w.claimsOf(instanceA)) != 1 {
				t.Fatal("no claim to begin with")
			}
		}
		r.setHook(nil)
		time.Sleep(interval)
		synctest.Wait()
		wantOnlyKey(w, instanceA)
	})
}

func TestWhoIsMissingForLongDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.ec2.launch(instanceA)
		r := w.start()
		r.wantExhausted(instanceA)
		w.ec2.vanish(instanceA)
		time.Sleep(grace)
		defer r.run()()
		w.makeKeys("key-1")
		synctest.Wait()
		lookups := w.ec2.count()
		w.makeKeys("key-2")
		synctest.Wait()
		if w.ec2.count() != lookups {
			t.Error("still looked up")
		}
	})
}
