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
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// reissueFaults are those that differ to a reissue.
var reissueFaults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.name == "429" || f.name == "timeout" })

// The operator's program fails, or is killed, at any call; asked again it does
// all of it.
func TestReissueSurvivesAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for start, prepare := range someStarts() {
		for _, fault := range reissueFaults {
			t.Run(start+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					r := w.start()
					prepare(w, r)
					had := w.truth.has[instanceA]
					reached := r.failAt(n, fault.err, fault.crash)
					got, err := r.Reissue(t.Context(), instanceA)
					if err == nil {
						w.wantToken(instanceA, got)
					} else if got != (lifecycle.Reissued{}) {
						t.Errorf("%v, and %+v all the same", err, got)
					}
					if reached() && fault.crash && err == nil {
						t.Error("done although it was killed")
					}
					w.truth.check(w)
					r = r.survivor(fault.crash)
					got = r.reissue(instanceA)
					if had != "" && got.Key != had {
						t.Errorf("key %s, it was given %s", got.Key, had)
					}
					w.truth.check(w)
					r.grant(instanceA)
					r.reconcile(2)
					w.wantReissued(instanceA, got)
					r.grant(instanceA)
					return reached()
				})
			})
		}
	}
}

// It fails, and nobody asks again: the passes leave nothing half done.
func TestAFailedReissueIsRepaired(t *testing.T) {
	t.Parallel()
	for start, prepare := range someStarts() {
		for _, fault := range reissueFaults {
			if !fault.crash {
				continue
			}
			t.Run(start+", "+fault.name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					w.ec2.vanish(instanceB) // one at a time, so that calls come in one order
					r := w.start()
					prepare(w, r)
					w.ec2.vanish(instanceB)
					reached := r.failAt(n, fault.err, fault.crash)
					_, _ = r.Reissue(t.Context(), instanceA)
					r = r.survivor(fault.crash)
					r.reconcile(2)
					w.truth.check(w)
					w.wantNothingHalfDone(instanceA)
					return reached()
				})
			})
		}
	}
}

// wantToken checks that the instance's only token is the one that the operator
// was told of.
func (w *world) wantToken(id instance.ID, got lifecycle.Reissued) {
	w.t.Helper()
	claims := w.claimsOf(id)
	if len(claims) != 1 || string(claims[0].Data["token-id"]) != got.TokenID || claims[0].Annotations[claimedKey] != got.Key {
		w.t.Errorf("told %+v, claims %v", got, describe(claims))
	}
}

// wantNothingHalfDone checks that the instance has all that it needs, or, having
// joined or being too late, a key at most.
func (w *world) wantNothingHalfDone(id instance.ID) {
	w.t.Helper()
	if keys, claims := w.keysOf(id), w.claimsOf(id); len(claims) == 0 && len(keys) <= 1 && (w.hasNode(id) || w.past(id)) {
		return
	}
	w.wantComplete(id)
}

func (w *world) past(id instance.ID) bool {
	return time.Since(w.ec2.instances[id].LaunchTime) > cutoff
}

// meddlers are what may happen at any call of a reissue, by another replica or by
// a hand.
var meddlers = map[string]func(*world, *replica){
	"pass":    func(_ *world, r *replica) { r.reconcile(1) },
	"reissue": func(_ *world, r *replica) { _, _ = r.Reissue(context.Background(), instanceA) },
	"fetch":   func(w *world, r *replica) { r.tryGrant(instanceA) },
	"stop":    func(w *world, _ *replica) { w.ec2.setState(instanceA, instance.Stopped) },
	"event and fetch": func(_ *world, r *replica) {
		_, _ = r.Handle(context.Background(), event(instanceA, instance.Running))
		r.tryGrant(instanceA)
	},
	"claims vanish":     func(w *world, _ *replica) { w.removeClaims(instanceA) },
	"another is served": func(_ *world, r *replica) { r.handleUntilSettled(instanceB, instance.Running); r.tryGrant(instanceB) },
	"the key is labelled anew": func(w *world, _ *replica) {
		for _, key := range w.keysOf(instanceA) {
			w.editKey(key, func(s *corev1.Secret) { metav1.SetMetaDataLabel(&s.ObjectMeta, "site", "home") })
		}
	},
	"the claim's label is lost": func(w *world, _ *replica) {
		w.editClaim(instanceA, func(s *corev1.Secret) { s.Labels = nil })
	},
	"the node becomes Ready": func(w *world, r *replica) {
		time.Sleep(time.Second)
		if w.hasNode(instanceA) {
			w.setReady(instanceA, corev1.ConditionTrue)
		} else {
			w.join(instanceA, corev1.ConditionTrue)
		}
		r.reconcile(1)
	},
}

// tryGrant fetches, and what it is given must be right.
func (r *replica) tryGrant(id instance.ID) bool {
	g, err := r.Grant(context.Background(), id)
	if err == nil {
		r.w.truth.given(r.w, id, g)
	}
	return err == nil
}

func TestReissueWithOthersBetweenItsCalls(t *testing.T) {
	t.Parallel()
	for start, prepare := range someStarts() {
		for name, meddle := range meddlers {
			t.Run(start+", "+name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					r, other := w.start(), w.start()
					prepare(w, r)
					had := w.truth.has[instanceA]
					reached := false
					r.setHook(before(n, func() { reached = true; meddle(w, other) }))
					got, err := r.Reissue(t.Context(), instanceA)
					r.setHook(nil)
					w.truth.check(w)
					if err == nil && had != "" && got.Key != had {
						t.Errorf("key %s, it was given %s", got.Key, had)
					}
					w.ec2.setState(instanceA, instance.Running)
					if err != nil && name != "stop" {
						t.Errorf("the operator has to ask again: %v", err)
					}
					if err != nil {
						got = r.reissue(instanceA)
					}
					w.wantToken(instanceA, got)
					w.truth.check(w)
					r.reconcile(2)
					w.truth.check(w)
					w.wantReissued(instanceA, got)
					r.grant(instanceA)
					return reached
				})
			})
		}
	}
}

// The other way round: what a replica does is interrupted by a reissue at any
// call. The new token is not harmed, nor is its right to be fetched.
func TestAReissueBetweenTheCallsOfOthers(t *testing.T) {
	t.Parallel()
	for start, prepare := range someStarts() {
		for _, name := range []string{"pass", "fetch", "event and fetch"} {
			t.Run(start+", "+name, func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					w.ec2.vanish(instanceB) // one at a time, so that calls come in one order
					r, operator := w.start(), w.start()
					prepare(w, r)
					had := w.truth.has[instanceA]
					var got lifecycle.Reissued
					reached := false
					r.setHook(before(n, func() { reached = true; got = operator.reissue(instanceA) }))
					meddlers[name](w, r)
					r.setHook(nil)
					w.truth.check(w)
					if !reached {
						return false
					}
					w.wantToken(instanceA, got)
					if had != "" && got.Key != had {
						t.Errorf("key %s, it was given %s", got.Key, had)
					}
					r.reconcile(2)
					if had == "" { // a key that it was never given may be exchanged
						got.Key = keyOf(r.grant(instanceA).WireGuardConfig)
					}
					w.wantReissued(instanceA, got)
					r.grant(instanceA)
					return true
				})
			})
		}
	}
}

// The end of the instance comes during a reissue: nothing is left to it when the
// next pass is over.
func TestAnInstanceThatDiesDuringAReissueIsLeftNothing(t *testing.T) {
	t.Parallel()
	for start, prepare := range reissueStarts {
		for _, end := range []instance.State{instance.ShuttingDown, instance.Terminated} {
			t.Run(start+", "+string(end), func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					r, operator := w.start(), w.start()
					prepare(w, r)
					reached := false
					operator.setHook(before(n, func() {
						reached = true
						w.ec2.setState(instanceA, end)
						r.handleUntilSettled(instanceA, end)
					}))
					_, err := operator.Reissue(t.Context(), instanceA)
					operator.setHook(nil)
					w.truth.check(w)
					if !reached {
						return false
					}
					if r.tryGrant(instanceA) {
						t.Error("it is given something by who knows of its end")
					}
					r.reconcile(1)
					if n := len(w.claimsOf(instanceA)); n != 0 {
						t.Errorf("%d tokens are left (%v)", n, err)
					}
					w.ec2.setState(instanceA, instance.Terminated)
					r.reconcile(1)
					w.wantNothing(instanceA)
					if w.hasNode(instanceA) {
						t.Error("the node is left")
					}
					return true
				})
			})
		}
	}
}

// The replica that reissues knows of the end itself: it leaves no token to be
// found by a pass.
func TestAReissueLeavesNoTokenToADeadInstance(t *testing.T) {
	t.Parallel()
	for _, end := range []instance.State{instance.ShuttingDown, instance.Terminated} {
		for _, behind := range []bool{false, true} { // EC2's answers
			everyCall(t, func(t *testing.T, w *world, n int) bool {
				r := w.start()
				reached := false
				r.setHook(before(n, func() {
					reached = true
					r.setHook(nil)
					if !behind {
						w.ec2.setState(instanceA, end)
					}
					_, _ = r.Handle(t.Context(), event(instanceA, end))
				}))
				got, err := r.Reissue(t.Context(), instanceA)
				if reached && (err == nil || len(w.claimsOf(instanceA)) > 0) {
					t.Errorf("%+v, %v, claims %v", got, err, describe(w.claimsOf(instanceA)))
				}
				return reached
			})
		}
	}
}

// An admission under way meets a reissue: it does not take the key back that the
// new token names.
func TestAnAdmissionDoesNotTakeTheKeyOfAReissue(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, 2 * cutoff} { // no pass admits the old one
		everyCall(t, func(t *testing.T, w *world, n int) bool {
			r, operator := w.start(), w.start()
			r.admit(instanceA)
			w.ec2.change(instanceA, func(i *instance.Instance) { i.LaunchTime = time.Now().Add(-age) })
			reached := false
			var got lifecycle.Reissued
			r.setHook(before(n, func() { reached = true; got = operator.reissue(instanceA) }))
			_, _ = r.Handle(t.Context(), event(instanceA, instance.Running))
			if reached {
				w.wantReissued(instanceA, got)
				operator.grant(instanceA)
			}
			return reached
		})
	}
}

// Nothing of another instance's is touched by a reissue.
func TestReissueLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		r := w.start()
		r.admit(instanceA)
		r.admit(instanceB)
		r.admit(instanceC)
		r.joinAndClose(instanceB)
		others := func() []corev1.Secret {
			return slices.DeleteFunc(append(list(w.keys), list(w.tokens)...), func(s corev1.Secret) bool { return s.Labels[label] == string(instanceA) })
		}
		before := others()
		w.wantReissued(instanceA, r.reissue(instanceA))
		after := others()
		if !slices.EqualFunc(before, after, func(a, b corev1.Secret) bool { return a.Name == b.Name && a.ResourceVersion == b.ResourceVersion }) {
			t.Error("another's Secrets were written")
		}
		w.ec2.setState(instanceC, instance.Terminated)
		r.handle(instanceC, instance.Terminated, "retired")
		w.wantReissued(instanceB, r.reissue(instanceB))
		w.wantComplete(instanceA)
	})
}

func TestReissueWithTheAPIServerDown(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		down := errors.New("dial tcp: connection refused")
		r.setHook(func(context.Context, apitest.Call) error { return down })
		r.client.Forget()
		if got, err := r.Reissue(t.Context(), instanceA); !errors.Is(err, down) || got != (lifecycle.Reissued{}) || r.client.Count() != 1 {
			t.Errorf("%+v, %v, %v", got, err, r.client.Calls())
		}
		w.wantComplete(instanceA)
	})
}
