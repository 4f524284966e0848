package lifecycle_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// register makes a Ready Node as a kubelet might, with what it likes to say.
func (w *world) register(name, providerID string) {
	w.t.Helper()
	_, err := w.nodes.Create(w.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A kubelet that leaves out its provider id, or gives another's, escapes neither
// its taints nor the end of its join, nor its own end.
func TestANodeWithoutProviderIDJoins(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"", "aws:///us-east-2a/" + string(instanceB)} {
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.SetProfiles([]lifecycle.Profile{restricted(t)})
			defer r.run()()
			r.admit(instanceA)
			r.grant(instanceA)
			w.register(string(instanceA), says)
			synctest.Wait()
			r.wantClosed(instanceA)
			wantOnlyKey(w, instanceA)
			w.wantRestricted(string(instanceA), true)
			w.ec2.setState(instanceA, instance.Terminated)
			r.handle(instanceA, instance.Terminated, "retired")
			w.wantNothing(instanceA)
			if w.hasNode(instanceA) {
				t.Errorf("%q: the Node is left", says)
			}
		})
	}
}

// Whoever has a dead instance's certificate can register its Node again, with or
// without provider id and label. Nodes that are not ours, or not dead, stay.
func TestANodeOfTheDeadComesBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		providerID string
		state      instance.State
		tags       map[string]string
		stays      bool
	}{
		"with provider id":    {"aws:///us-east-2a/" + string(instanceA), instance.Terminated, nil, false},
		"without provider id": {"", instance.Terminated, nil, false},
		"it lives":            {"", instance.Running, nil, true},
		"it stops":            {"", instance.Stopped, nil, true},
		"not ours":            {"", instance.Terminated, map[string]string{"role": "database"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.ec2.launch(instanceA)
				if tc.tags != nil {
					w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = tc.tags })
				}
				w.ec2.setState(instanceA, tc.state)
				r := w.start()
				w.register(string(instanceA), tc.providerID)
				r.reconcile(2)
				if w.hasNode(instanceA) != tc.stays {
					t.Errorf("the Node is there: %v", !tc.stays)
				}
			})
		})
	}
}
