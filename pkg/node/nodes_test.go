package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	instanceA instance.ID = "i-0000000000000000a"
	instanceB instance.ID = "i-0000000000000000b"
)

var readyAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func makeNode(name, providerID string, status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(readyAt.Add(-time.Hour))},
			{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(readyAt)},
		}},
	}
}

func providerID(id instance.ID) string { return "aws:///us-east-2a/" + string(id) }

func ours(n *corev1.Node, id string) *corev1.Node {
	n.Labels[InstanceLabel] = id
	return n
}

// cluster is an API server with Nodes, and a hand that meddles.
type cluster struct {
	*Nodes
	client *apitest.Client
	view   *apitest.View
	hand   *apitest.NodeClient
	hook   apitest.Hook
}

func newCluster(t *testing.T, nodes ...*corev1.Node) *cluster {
	t.Helper()
	server := apitest.NewServer()
	c := &cluster{hand: server.Client(nil).Nodes(), view: server.ViewNodes(Indexers())}
	c.client = server.Client(func(ctx context.Context, call apitest.Call) error {
		if c.hook == nil {
			return nil
		}
		return c.hook(ctx, call)
	})
	c.Nodes = New(c.client.Nodes(), c.view.Indexer())
	for _, n := range nodes {
		c.put(t, n)
	}
	return c
}

func (c *cluster) put(t *testing.T, n *corev1.Node) {
	t.Helper()
	if _, err := c.hand.Create(context.Background(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) remove(t *testing.T, name string) {
	t.Helper()
	if err := c.hand.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) exists(name string) bool {
	_, err := c.hand.Get(context.Background(), name, metav1.GetOptions{})
	return err == nil
}

func TestFindByProviderID(t *testing.T) {
	t.Parallel()
	c := newCluster(t,
		makeNode("a", providerID(instanceA), corev1.ConditionFalse),
		ours(makeNode("b", "aws:///us-east-2-lax-1a/"+string(instanceB), corev1.ConditionTrue), string(instanceB)),
		makeNode("home", "", corev1.ConditionTrue),
		makeNode("elsewhere", "gce://project/zone/"+string(instanceA), corev1.ConditionTrue),
		makeNode("odd", "aws:///us-east-2a/i-none", corev1.ConditionTrue),
		makeNode("i-0000000000000000c", "aws:///us-east-2a/", corev1.ConditionTrue), // known by its name
	)
	a, found := c.Find(instanceA)
	if want := (Node{Name: "a", InstanceID: instanceA}); !found || a != want || a.Ready() {
		t.Errorf("a: %+v, %v", a, found)
	}
	b, found := c.Find(instanceB)
	if !found || b.Name != "b" || !b.Ours || !b.Ready() || !b.ReadySince.Equal(readyAt) {
		t.Errorf("b: %+v, %v", b, found)
	}
	if n, found := c.Find("i-00000000"); found {
		t.Errorf("none: %+v", n)
	}
}

func TestFindPrefersTheReadyOne(t *testing.T) {
	t.Parallel()
	for i := range 20 { // the index has no order
		old := ours(makeNode(fmt.Sprintf("old-%d", i), providerID(instanceA), corev1.ConditionUnknown), string(instanceA))
		c := newCluster(t, old, makeNode(fmt.Sprintf("new-%d", i), providerID(instanceA), corev1.ConditionTrue))
		if n, found := c.Find(instanceA); !found || !n.Ready() || n.Name != fmt.Sprintf("new-%d", i) || !n.Ours {
			t.Fatalf("%+v", n)
		}
		if got := c.Ours(); !slices.Equal(got, []instance.ID{instanceA}) {
			t.Fatalf("ours: %v", got)
		}
	}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	c := newCluster(t,
		ours(makeNode("a", providerID(instanceA), corev1.ConditionFalse), string(instanceA)),
		ours(makeNode("b", providerID(instanceB), corev1.ConditionFalse), string(instanceA)), // somebody else's label
		makeNode("c", providerID("i-0000000000000000c"), corev1.ConditionTrue),
		ours(makeNode("home", "", corev1.ConditionTrue), string(instanceA)),
	)
	if got := c.Ours(); !slices.Equal(got, []instance.ID{instanceA}) {
		t.Errorf("ours: %v", got)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	c := newCluster(t,
		makeNode("a1", providerID(instanceA), corev1.ConditionTrue),
		makeNode("a2", providerID(instanceA), corev1.ConditionFalse),
		makeNode("b", providerID(instanceB), corev1.ConditionFalse),
		makeNode("home", "", corev1.ConditionFalse),
	)
	if deleted, err := c.Delete(t.Context(), instanceA); err != nil || !deleted {
		t.Errorf("%v, %v", deleted, err)
	}
	if c.exists("a1") || c.exists("a2") || !c.exists("b") || !c.exists("home") {
		t.Error("the wrong ones were deleted")
	}
	c.client.Forget()
	if deleted, err := c.Delete(t.Context(), instanceA); err != nil || deleted || c.client.Count() != 0 {
		t.Errorf("again: %v, %v, %v", deleted, err, c.client.Calls())
	}
}

func TestDeleteSparesAnotherMachineOfTheSameName(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"", providerID(instanceB)} {
		t.Run("seen when read, "+other, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
			c.view.Hold()
			c.remove(t, "n")
			c.put(t, makeNode("n", other, corev1.ConditionTrue))
			if deleted, err := c.Delete(t.Context(), instanceA); err != nil || deleted || !c.exists("n") {
				t.Errorf("%v, %v, exists %v", deleted, err, c.exists("n"))
			}
			if c.client.Count("delete") != 0 {
				t.Error("a delete was sent")
			}
		})
		t.Run("after the read, "+other, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
			c.hook = func(_ context.Context, call apitest.Call) error {
				if call.Verb == "delete" {
					c.remove(t, "n")
					c.put(t, makeNode("n", other, corev1.ConditionTrue))
				}
				return nil
			}
			if deleted, err := c.Delete(t.Context(), instanceA); err != nil || deleted || !c.exists("n") {
				t.Errorf("%v, %v, exists %v", deleted, err, c.exists("n"))
			}
		})
	}
}

func TestDeleteOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "delete"} {
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == verb {
				c.remove(t, "n")
			}
			return nil
		}
		if deleted, err := c.Delete(t.Context(), instanceA); err != nil || deleted {
			t.Errorf("before %s: %v, %v", verb, deleted, err)
		}
	}
}

func TestDeleteErrors(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	for _, verb := range []string{"get", "delete"} {
		c := newCluster(t,
			makeNode("a1", providerID(instanceA), corev1.ConditionTrue),
			makeNode("a2", providerID(instanceA), corev1.ConditionTrue))
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == verb && call.Name == "a1" {
				return busy
			}
			return nil
		}
		if deleted, err := c.Delete(t.Context(), instanceA); !errors.Is(err, busy) || !deleted {
			t.Errorf("%s: %v, %v; want the other one deleted", verb, deleted, err)
		}
	}
}

func TestBecameReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t,
		makeNode("ready", providerID(instanceA), corev1.ConditionTrue),
		makeNode("home", "", corev1.ConditionTrue))
	heard := func() []instance.ID {
		var ids []instance.ID
		for {
			select {
			case id := <-c.BecameReady():
				ids = append(ids, id)
			default:
				return ids
			}
		}
	}
	set := func(name string, status corev1.ConditionStatus) {
		t.Helper()
		n, err := c.hand.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions[1].Status = status
		if _, err := c.hand.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want ...instance.ID) {
		t.Helper()
		if got := heard(); !slices.Equal(got, want) {
			t.Errorf("%s: heard %v", what, got)
		}
	}
	c.view.Handle(c.EventHandler())
	want("Ready at the start", instanceA)
	set("ready", corev1.ConditionUnknown)
	want("not Ready any more")
	set("ready", corev1.ConditionTrue)
	want("Ready again", instanceA)
	c.put(t, makeNode("b", providerID(instanceB), corev1.ConditionFalse))
	want("new")
	set("b", corev1.ConditionTrue)
	want("became Ready", instanceB)
	set("home", corev1.ConditionFalse)
	set("home", corev1.ConditionTrue)
	want("not in EC2")
	c.remove(t, "b")
	want("deleted")
	for range 300 { // nobody reads: nothing may block
		set("ready", corev1.ConditionFalse)
		set("ready", corev1.ConditionTrue)
	}
	if got := len(heard()); got != cap(c.ready) {
		t.Errorf("%d kept", got)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	full := ours(makeNode("a", providerID(instanceA), corev1.ConditionTrue), string(instanceA))
	full.UID, full.ResourceVersion = "u", "7"
	full.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	full.Annotations = map[string]string{"long": "text"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	full.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	object, err := trim(full)
	slim, ok := object.(*corev1.Node)
	if err != nil || !ok {
		t.Fatal(object, err)
	}
	if slim.Annotations != nil || slim.ManagedFields != nil || slim.Status.Images != nil || slim.Status.Capacity != nil ||
		len(slim.Labels) != 2 || len(slim.Status.Conditions) != 1 {
		t.Errorf("not trimmed: %+v", slim)
	}
	if slim.Name != "a" || slim.UID != "u" || slim.ResourceVersion != "7" || nodeOf(slim, instanceA) != nodeOf(full, instanceA) ||
		slim.Spec.ProviderID != full.Spec.ProviderID || len(slim.Spec.Taints) != 1 {
		t.Errorf("too much is gone: %+v", slim)
	}
	if full.Status.Images == nil {
		t.Error("the original was changed")
	}
	bare, _ := trim(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"x": "y"}}})
	if got := bare.(*corev1.Node); got.Labels["x"] != "y" || got.Status.Conditions != nil {
		t.Errorf("bare: %+v", got)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := trim(tombstone); err != nil || got != tombstone {
		t.Errorf("tombstone: %v, %v", got, err)
	}
}

func TestInformerIndexesAndTrims(t *testing.T) {
	t.Parallel()
	full := makeNode("a", providerID(instanceA), corev1.ConditionTrue)
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	client := fake.NewClientset(full)
	informer, err := NewInformer(client)
	if err != nil {
		t.Fatal(err)
	}
	nodes := New(client.CoreV1().Nodes(), informer.GetIndexer())
	if _, err := informer.AddEventHandler(nodes.EventHandler()); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if id := <-nodes.BecameReady(); id != instanceA {
		t.Errorf("heard %s", id)
	}
	if n, found := nodes.Find(instanceA); !found || n.Name != "a" {
		t.Errorf("%+v, %v", n, found)
	}
	if kept := informer.GetStore().List()[0].(*corev1.Node); kept.Status.Images != nil {
		t.Error("not trimmed")
	}
}
