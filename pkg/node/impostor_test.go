package node

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func TestInstanceOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, providerID string
		want             instance.ID
		inEC2            bool
	}{
		"named after its instance":        {string(instanceA), providerID(instanceA), instanceA, true},
		"named after another instance":    {string(instanceA), providerID(instanceB), instanceA, true},
		"named by its private DNS name":   {"ip-10-0-0-1.ec2.internal", providerID(instanceA), instanceA, true},
		"its id and more":                 {string(instanceB) + ".example.org", providerID(instanceA), instanceA, true},
		"an id of the old kind":           {"i-0123abcd", providerID(instanceA), "i-0123abcd", true},
		"its own id of the old kind":      {"i-0123abcd", providerID("i-0123abcd"), "i-0123abcd", true},
		"nearly an id":                    {"i-0123", providerID(instanceA), instanceA, true},
		"named after it, no provider id":  {string(instanceA), "", instanceA, true},
		"named after it, somewhere else":  {string(instanceA), "gce://project/zone/" + string(instanceA), "", false},
		"named after it, without a zone":  {string(instanceA), "aws:////" + string(instanceA), instanceA, true},
		"named after it, and a Fargate's": {string(instanceA), "aws:///us-east-2a/1234/fargate-ip", instanceA, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, makeNode(tc.node, tc.providerID, corev1.ConditionTrue))
			if id, inEC2, found := c.InstanceOf(tc.node); id != tc.want || inEC2 != tc.inEC2 || !found {
				t.Errorf("%q, %v, %v", id, inEC2, found)
			}
			for _, id := range []instance.ID{instanceA, instanceB, "i-0123abcd"} {
				if _, found := c.Find(id); found != (id == tc.want) {
					t.Errorf("found by %s: %v", id, found)
				}
			}
		})
	}
}

func TestInstanceOfANodeThatTheCacheDoesNotHold(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.view.Hold()
	c.put(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	if id, inEC2, found := c.InstanceOf("n"); id != "" || inEC2 || found {
		t.Errorf("%q, %v, %v", id, inEC2, found)
	}
	c.view.Release()
	if id, inEC2, found := c.InstanceOf("n"); id != instanceA || !inEC2 || !found {
		t.Errorf("%q, %v, %v", id, inEC2, found)
	}
	c.remove(t, "n")
	if id, inEC2, found := c.InstanceOf("n"); id != "" || inEC2 || found {
		t.Errorf("removed: %q, %v, %v", id, inEC2, found)
	}
}

// A kubelet that runs as instance A says that it is instance B, and that the
// Node is ours.
func TestANodeDoesNotSpeakForAnotherInstance(t *testing.T) {
	t.Parallel()
	impostor := func() *corev1.Node {
		return ours(makeNode(string(instanceA), providerID(instanceB), corev1.ConditionTrue), string(instanceB))
	}
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, impostor())
		c.view.Handle(c.EventHandler())
		if n, found := c.Find(instanceB); found {
			t.Errorf("B has node %+v", n)
		}
		if n, found := c.Find(instanceA); !found || !n.Ready() || n.Ours {
			t.Errorf("A has node %+v, %v", n, found)
		}
		if deleted, err := c.Delete(t.Context(), instanceB); deleted || err != nil {
			t.Errorf("deleted with B: %v, %v", deleted, err)
		}
		if got := c.Ours(); len(got) != 0 {
			t.Errorf("ours: %v", got)
		}
		c.change(t, string(instanceA), func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionFalse })
		c.change(t, string(instanceA), func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue })
		for len(c.BecameReady()) > 0 {
			if id := <-c.BecameReady(); id != instanceA {
				t.Errorf("heard of %s", id)
			}
		}
		if !c.exists(string(instanceA)) || c.client.Count() != 0 {
			t.Errorf("calls %v", c.client.Calls())
		}
	})
	t.Run("beside the true one", func(t *testing.T) {
		t.Parallel()
		// The true one is not Ready, and not ours.
		c := newCluster(t, impostor(), makeNode(string(instanceB), providerID(instanceB), corev1.ConditionFalse))
		if n, found := c.Find(instanceB); !found || n.Name != string(instanceB) || n.Ready() || n.Ours {
			t.Errorf("%+v, %v", n, found)
		}
		if got := c.Ours(); len(got) != 0 {
			t.Errorf("ours: %v", got)
		}
		if deleted, err := c.Delete(t.Context(), instanceB); !deleted || err != nil {
			t.Errorf("%v, %v", deleted, err)
		}
		if !c.exists(string(instanceA)) || c.exists(string(instanceB)) {
			t.Error("the wrong one was deleted")
		}
	})
}

// The cache saw the Node of the instance; by the time of the delete another
// machine has its name.
func TestDeleteSparesAnotherThatTheCacheDidNotSee(t *testing.T) {
	t.Parallel()
	c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	c.view.Hold()
	c.remove(t, "n")
	c.put(t, makeNode("n", providerID(instanceB), corev1.ConditionTrue))
	for _, id := range []instance.ID{instanceA, instanceB} {
		if deleted, err := c.Delete(t.Context(), id); deleted || err != nil || !c.exists("n") {
			t.Errorf("%s: %v, %v", id, deleted, err)
		}
	}
}

// The provider id may come later than the Node.
func TestTheIndexFollowsTheProviderID(t *testing.T) {
	t.Parallel()
	c := newCluster(t, makeNode("n", "", corev1.ConditionTrue))
	if ids := c.index.ListIndexFuncValues(byInstance); len(ids) != 0 {
		t.Errorf("indexed: %v", ids)
	}
	c.change(t, "n", func(n *corev1.Node) { n.Spec.ProviderID = providerID(instanceA) })
	if ids := c.index.ListIndexFuncValues(byInstance); !slices.Equal(ids, []string{string(instanceA)}) {
		t.Errorf("indexed: %v", ids)
	}
	if n, found := c.Find(instanceA); !found || n.Name != "n" {
		t.Errorf("%+v, %v", n, found)
	}
}

// What a kubelet says of its provider id, or does not say, changes nothing for a
// Node that has the instance's id for its name.
func TestANodeIsRestrictedWhateverItSays(t *testing.T) {
	t.Parallel()
	for _, says := range []string{providerID(instanceB), "", "aws:///us-east-2a/"} {
		c := newCluster(t, makeNode(string(instanceA), says, corev1.ConditionTrue))
		if changed, err := c.Restrict(t.Context(), instanceB, string(instanceA), both); changed || err != nil {
			t.Errorf("%q, as B's: %v, %v", says, changed, err)
		}
		changed, err := c.Restrict(t.Context(), instanceA, string(instanceA), both)
		if n := c.get(t, string(instanceA)); !changed || err != nil || n.Labels["tier"] != "gold" || len(n.Spec.Taints) == 0 {
			t.Errorf("%q: %v, %v, labels %v", says, changed, err, n.Labels)
		}
	}
}

func TestIncarnation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	incarnation := func() string {
		n, _ := c.Find(instanceA)
		return n.Incarnation
	}
	ready := func(status corev1.ConditionStatus, after time.Duration) {
		c.change(t, "n", func(n *corev1.Node) {
			n.Status.Conditions[1].Status, n.Status.Conditions[1].LastTransitionTime = status, metav1.NewTime(readyAt.Add(after))
		})
	}
	first := incarnation()
	c.change(t, "n", func(n *corev1.Node) { n.Status.Conditions[0].Message, n.Labels["x"] = "m", "y" })
	if got := incarnation(); got != first || got == "" {
		t.Errorf("%q, after a heartbeat %q", first, got)
	}
	ready(corev1.ConditionUnknown, time.Minute)
	if got := incarnation(); got != "" {
		t.Errorf("not Ready: %q", got)
	}
	ready(corev1.ConditionTrue, 2*time.Minute)
	second := incarnation()
	c.remove(t, "n")
	if got := incarnation(); got != "" {
		t.Errorf("gone: %q", got)
	}
	c.put(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	if third := incarnation(); second == first || third == first || third == second || second == "" || third == "" {
		t.Errorf("%q, %q, %q", first, second, third)
	}
	ready(corev1.ConditionTrue, -time.Hour) // its clock was set back
	if got := incarnation(); got == first || got == "" {
		t.Errorf("%q, then %q", first, got)
	}
}

// Should there be several Nodes of an instance, the answer does not change from
// call to call.
func TestFindIsSteady(t *testing.T) {
	t.Parallel()
	for range 20 {
		c := newCluster(t,
			makeNode("c", providerID(instanceA), corev1.ConditionTrue),
			makeNode("a", providerID(instanceA), corev1.ConditionFalse),
			makeNode("b", providerID(instanceA), corev1.ConditionTrue))
		if n, _ := c.Find(instanceA); n.Name != "b" {
			t.Fatalf("found %s", n.Name)
		}
	}
}
