package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// What a replica read of the node before a reissue must not end it.
func TestAStaleNodeDoesNotEndAReissue(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		everyCall(t, func(t *testing.T, w *world, n int) bool {
			w.ec2.vanish(instanceB)
			r, operator := w.start(), w.start()
			reissueStarts["reissued before"](w, r)
			var got lifecycle.Reissued
			reached := false
			r.setHook(before(n, func() {
				reached = true
				w.setReady(instanceA, corev1.ConditionUnknown)
				if back {
					time.Sleep(time.Second)
					w.setReady(instanceA, corev1.ConditionTrue)
				}
				got = operator.reissue(instanceA)
			}))
			r.reconcile(1)
			r.setHook(nil)
			if reached {
				w.wantToken(instanceA, got)
			}
			return reached
		})
	}
}

// A pass whose cache of the keys is behind makes no ordinary token for an instance that has joined.
func TestALatePassGivesNoTokenToAJoinedInstance(t *testing.T) {
	t.Parallel()
	everyCall(t, func(t *testing.T, w *world, n int) bool {
		w.ec2.vanish(instanceB)
		r, other := w.start(), w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		r.keyView.Hold()
		w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels[label] = "reserved" })
		r.keyView.Step()
		w.editKey(w.keyNames("reserved"), func(s *corev1.Secret) { s.Labels[label] = string(instanceA) })
		other.reissue(instanceA) // r's cache of the keys is behind
		reached := false
		r.setHook(before(n, func() {
			reached = true
			time.Sleep(time.Second)
			w.setReady(instanceA, corev1.ConditionTrue)
			other.reconcile(1)
			wantOnlyKey(w, instanceA)
		}))
		r.reconcile(1)
		r.setHook(nil)
		if c := w.claimsOf(instanceA); reached && len(c) > 0 {
			t.Errorf("a token for one that has joined: %v", describe(c))
		}
		return reached
	})
}

func (w *world) keyNames(value string) string {
	for _, s := range list(w.keys) {
		if s.Labels[label] == value {
			return s.Name
		}
	}
	return ""
}

// An incomplete reissue must not keep a pass from finishing the join
func TestAnIncompleteReissueStillEndsWithTheJoin(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(w *world){
		"two keys": func(w *world) {
			w.editKey(w.aFreeKey(), func(s *corev1.Secret) {
				s.Labels[label] = string(instanceA)
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, handedOutTo, string(instanceA))
			})
		},
		"broken": func(w *world) {
			key := w.keysOf(instanceA)[0]
			w.editKey(key, func(s *corev1.Secret) { s.Data = nil })
			w.pointTo("none")
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				w.ec2.launch(instanceA)
				r := w.start()
				r.SetProfiles([]lifecycle.Profile{restricted(t)})
				r.admit(instanceA)
				r.joinAndClose(instanceA)
				r.reissue(instanceA)
				damage(w)
				time.Sleep(time.Second)
				w.editNode(string(instanceA), func(n *corev1.Node) { n.Labels["tier"] = "none" })
				w.setReady(instanceA, corev1.ConditionTrue) // nobody heard
				r.reconcile(2)
				if c := w.claimsOf(instanceA); len(c) > 0 {
					t.Errorf("the token is there after two passes: %v", describe(c))
				}
				w.wantRestricted(string(instanceA), true)
			})
		})
	}
}

// A replica that still sees the Ready node from before asks the API server first.
func TestALateReplicaDoesNotEndAReissue(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r, late := w.start(), w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		late.nodeView.Hold()
		w.setReady(instanceA, corev1.ConditionUnknown)
		time.Sleep(time.Second)
		got := r.reissue(instanceA)
		late.reconcile(1)
		w.wantReissued(instanceA, got)
	})
}

// onceEC2 answers once and is away then.
type onceEC2 struct {
	*cloud
	asked int
}

func (f *onceEC2) Instance(ctx context.Context, id instance.ID) (instance.Instance, error) {
	f.asked++
	if f.asked > 1 {
		return instance.Instance{}, errors.New("throttled")
	}
	return f.cloud.Instance(ctx, id)
}

// That EC2 cannot be asked again takes nothing back.
func TestReissueStaysWhenEC2GoesAway(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		r := w.startWith(&onceEC2{cloud: w.ec2})
		w.wantReissued(instanceA, r.reissue(instanceA))
	})
}

// A Node that vanishes does not open the endpoint again: only an operator does.
func TestADeletedNodeOpensNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r, late := w.start(), w.start()
		late.keyView.Hold()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		if err := w.nodes.Delete(t.Context(), string(instanceA), deleteOptions); err != nil {
			t.Fatal(err)
		}
		for _, one := range []*replica{r, late} {
			one.handle(instanceA, instance.Running, "joined")
			one.reconcile(2)
			if one.tryGrant(instanceA) {
				t.Error("granted")
			}
			wantOnlyKey(w, instanceA)
		}
		r.wantClosed(instanceA)
		w.wantReissued(instanceA, r.reissue(instanceA))
		r.grant(instanceA)
		time.Sleep(ttl)
		r.reconcile(1)
		r.wantClosed(instanceA)
		wantOnlyKey(w, instanceA)
		w.ec2.setState(instanceA, instance.Terminated)
		r.handle(instanceA, instance.Terminated, "retired")
		w.wantNothing(instanceA)
		r.admit(instanceB) // by the same key, perhaps
		r.grant(instanceB)
	})
}

// A pass that finds a Ready Node of which nobody took note, takes note.
func TestAPassRemembersTheJoin(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		r.grant(instanceA)
		w.removeClaims(instanceA) // the token lapsed before the Node was Ready
		w.join(instanceA, corev1.ConditionTrue)
		r.reconcile(1)
		if err := w.nodes.Delete(t.Context(), string(instanceA), deleteOptions); err != nil {
			t.Fatal(err)
		}
		r.reconcile(2)
		r.wantClosed(instanceA)
		wantOnlyKey(w, instanceA)
	})
}

// A false word about an instance's end is forgotten when EC2 goes on saying that
// it runs.
func TestAFalseEndIsForgotten(t *testing.T) {
	t.Parallel()
	for _, end := range []instance.State{instance.ShuttingDown, instance.Terminated} {
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.admit(instanceA)
			if _, err := r.Handle(t.Context(), event(instanceA, end)); err != nil {
				t.Fatal(err)
			}
			r.wantClosed(instanceA)
			r.reconcile(int(grace / interval)) // EC2 may be behind so long
			r.wantClosed(instanceA)
			time.Sleep(interval)
			r.reconcile(2)
			w.wantComplete(instanceA)
			r.grant(instanceA)
		})
	}
}
