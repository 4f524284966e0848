package lifecycle_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// The kubelet of instance A says that its Node is instance B's, and ours.
func (w *world) impostor() {
	w.t.Helper()
	w.joinAs(string(instanceA), instanceB, corev1.ConditionTrue)
}

// Instance B does not suffer: it is admitted, fetches, and joins.
func TestAnotherInstancesNodeClosesNothing(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"before B is admitted": true, "after B fetched": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				r := w.start()
				r.SetProfiles([]lifecycle.Profile{restricted(t)})
				defer r.run()()
				r.admit(instanceA)
				r.grant(instanceA)
				if early {
					w.impostor()
					synctest.Wait()
				}
				r.admit(instanceB)
				token := r.grant(instanceB).Token.Reveal()
				if !early {
					w.impostor()
					synctest.Wait()
				}
				time.Sleep(2 * interval) // passes
				w.wantComplete(instanceB)
				if r.grant(instanceB).Token.Reveal() != token || r.Open(instanceB) != nil {
					t.Error("closed, or another token")
				}
				r.handle(instanceB, instance.Running, "admitted")
				r.wantClosed(instanceA) // whatever its Node says of itself
				wantOnlyKey(w, instanceA)
				w.wantRestricted(string(instanceA), true)
				time.Sleep(time.Second)
				w.join(instanceB, corev1.ConditionTrue)
				synctest.Wait()
				wantOnlyKey(w, instanceB)
				r.wantClosed(instanceB)
				w.wantRestricted(string(instanceB), true)
			})
		})
	}
}

// It neither keeps the dead alive nor dies with them.
func TestAnotherInstancesNodeIsNotDeletedWithIt(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *replica){
		"by an event": func(_ *world, r *replica) { r.handle(instanceB, instance.Terminated, "retired") },
		"by a pass":   func(_ *world, r *replica) { r.reconcile(1) },
		"unknown to EC2 for long": func(w *world, r *replica) {
			w.ec2.vanish(instanceB)
			r.reconcile(1)
			time.Sleep(grace)
			r.reconcile(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				r := w.start()
				r.admit(instanceA)
				r.admit(instanceB)
				r.grant(instanceB)
				w.impostor()
				w.join(instanceB, corev1.ConditionUnknown)
				w.ec2.setState(instanceB, instance.Terminated)
				end(w, r)
				w.wantNothing(instanceB)
				if w.hasNode(instanceB) || !w.hasNode(instanceA) {
					t.Errorf("B's node there: %v, A's: %v", w.hasNode(instanceB), w.hasNode(instanceA))
				}
			})
		})
	}
}

// Only the impostor speaks of B: nothing of ours is with B.
func TestAnotherInstancesNodeIsNoRecord(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		w.impostor()
		r.client.Forget()
		r.handle(instanceB, instance.Terminated, "not_ours")
		r.reconcile(1)
		if calls := r.nodeCalls(); len(calls) != 0 || !w.hasNode(instanceA) {
			t.Errorf("calls %v", calls)
		}
		r.wantCorrections()
	})
}

// Nor does it end, or begin, what an operator asked for.
func TestAnotherInstancesNodeDoesNotEndAReissue(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		defer r.run()()
		r.admit(instanceB)
		r.grant(instanceB)
		w.join(instanceB, corev1.ConditionTrue)
		synctest.Wait()
		wantOnlyKey(w, instanceB)
		time.Sleep(time.Minute)
		got := r.reissue(instanceB)
		time.Sleep(time.Second)
		w.impostor()
		synctest.Wait()
		w.wantReissued(instanceB, got)
		w.setReady(instanceA, corev1.ConditionFalse)
		w.setReady(instanceA, corev1.ConditionTrue)
		time.Sleep(2 * interval)
		w.wantReissued(instanceB, got)
		r.grant(instanceB)
	})
}

// The expected name is there, but it is not the instance's Node: the operator is
// told, and neither Node gets anything.
func TestTheExpectedNameIsAnothers(t *testing.T) {
	t.Parallel()
	for _, expected := range []string{string(instanceB), "worker-1"} {
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			p := restricted(t)
			p.NodeName = func(lifecycle.Grant) (string, error) { return expected, nil }
			r.SetProfiles([]lifecycle.Profile{p})
			r.admit(instanceA)
			w.joinAs(expected, instanceB, corev1.ConditionTrue)
			w.joinAs("elsewhere", instanceA, corev1.ConditionTrue)
			r.client.Forget()
			r.reconcile(1)
			wantOnlyKey(w, instanceA)
			w.wantRestricted("elsewhere", false)
			w.wantRestricted(expected, false)
			if text := w.log.String(); !strings.Contains(text, "level=WARN") || len(r.nodeCalls()) != 0 {
				t.Errorf("calls %v, log %s", r.nodeCalls(), text)
			}
		})
	}
}
