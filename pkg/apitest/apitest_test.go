package apitest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

var (
	_ bootstraptoken.Secrets = (*apitest.SecretClient)(nil)
	_ wireguardkey.Secrets   = (*apitest.SecretClient)(nil)
	_ node.Client            = (*apitest.NodeClient)(nil)
)

func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": name}},
		Type:       "t",
		Data:       map[string][]byte{"k": []byte("v")},
	}
}

func create(t *testing.T, c *apitest.SecretClient, s *corev1.Secret) *corev1.Secret {
	t.Helper()
	created, err := c.Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestCreate(t *testing.T) {
	t.Parallel()
	c := apitest.NewServer().Client(nil).Secrets("ns")
	first := create(t, c, secret("a"))
	if first.UID == "" || first.ResourceVersion == "" || first.CreationTimestamp.IsZero() || first.Namespace != "ns" {
		t.Errorf("incomplete: %+v", first.ObjectMeta)
	}
	if _, err := c.Create(t.Context(), secret("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	if err := c.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := create(t, c, secret("a")); second.UID == first.UID {
		t.Error("the uid came again")
	}
	for name, bad := range map[string]*corev1.Secret{
		"version":      {ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "1"}},
		"generateName": {ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}},
		"stringData":   {ObjectMeta: metav1.ObjectMeta{Name: "b"}, StringData: map[string]string{"a": "b"}},
	} {
		if _, err := c.Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	c := apitest.NewServer().Client(nil).Secrets("ns")
	old := create(t, c, secret("a"))
	update := func(change func(*corev1.Secret)) (*corev1.Secret, error) {
		s := old.DeepCopy()
		change(s)
		return c.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	if same, err := update(func(*corev1.Secret) {}); err != nil || same.ResourceVersion != old.ResourceVersion {
		t.Errorf("an update that changes nothing: %v %v", same, err)
	}
	updated, err := update(func(s *corev1.Secret) { s.Labels["l"] = "new" })
	if err != nil || number(t, updated) <= number(t, old) || updated.UID != old.UID {
		t.Fatalf("update: %v %v", updated, err)
	}
	if _, err := update(func(s *corev1.Secret) { s.Labels["l"] = "stale" }); !apierrors.IsConflict(err) {
		t.Errorf("stale: %v", err)
	}
	if _, err := update(func(s *corev1.Secret) { s.ResourceVersion, s.UID = "", "other" }); !apierrors.IsConflict(err) {
		t.Errorf("other uid: %v", err)
	}
	if _, err := update(func(s *corev1.Secret) { s.ResourceVersion, s.Type = "", "u" }); !apierrors.IsInvalid(err) {
		t.Errorf("other type: %v", err)
	}
	if _, err := update(func(s *corev1.Secret) { s.ResourceVersion = "" }); err != nil {
		t.Errorf("unconditional: %v", err)
	}
	if _, err := update(func(s *corev1.Secret) { s.Name = "none" }); !apierrors.IsNotFound(err) {
		t.Errorf("missing: %v", err)
	}
}

func number(t *testing.T, s *corev1.Secret) int {
	t.Helper()
	n, err := strconv.Atoi(s.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeletePreconditions(t *testing.T) {
	t.Parallel()
	c := apitest.NewServer().Client(nil).Secrets("ns")
	s := create(t, c, secret("a"))
	other, stale := types.UID("other"), "0"
	for _, p := range []*metav1.Preconditions{{UID: &other}, {ResourceVersion: &stale}, {UID: &s.UID, ResourceVersion: &stale}} {
		if err := c.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: p}); !apierrors.IsConflict(err) {
			t.Errorf("%v: %v", p, err)
		}
	}
	right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion}}
	if err := c.Delete(t.Context(), "a", right); err != nil {
		t.Error(err)
	}
	if err := c.Delete(t.Context(), "a", right); !apierrors.IsNotFound(err) {
		t.Errorf("again: %v", err)
	}
}

func TestListSelectors(t *testing.T) {
	t.Parallel()
	server := apitest.NewServer()
	c := server.Client(nil).Secrets("ns")
	for _, name := range []string{"b", "a"} {
		create(t, c, secret(name))
	}
	odd := secret("c")
	odd.Type, odd.Labels = "u", nil
	create(t, c, odd)
	create(t, server.Client(nil).Secrets("elsewhere"), secret("d"))
	for _, tc := range []struct {
		label, field string
		want         []string
	}{
		{"", "", []string{"a", "b", "c"}},
		{"l", "", []string{"a", "b"}},
		{"l=b", "", []string{"b"}},
		{"!l", "", []string{"c"}},
		{"", "type=u", []string{"c"}},
		{"l=a", "type=u", nil},
		{"", "metadata.name=a", []string{"a"}},
	} {
		list, err := c.List(t.Context(), metav1.ListOptions{LabelSelector: tc.label, FieldSelector: tc.field})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list.Items {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q %q: got %v, want %v", tc.label, tc.field, got, tc.want)
		}
	}
	for _, bad := range []metav1.ListOptions{{LabelSelector: "=="}, {FieldSelector: "nonsense"}} {
		if _, err := c.List(t.Context(), bad); !apierrors.IsBadRequest(err) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestMemoryIsNotShared(t *testing.T) {
	t.Parallel()
	c := apitest.NewServer().Client(nil).Secrets("ns")
	given := secret("a")
	spoil := func(s *corev1.Secret) { s.Labels["l"], s.Data["k"][0] = "spoilt", 'x' }
	created := create(t, c, given)
	spoil(given)
	spoil(created)
	list, _ := c.List(t.Context(), metav1.ListOptions{})
	spoil(&list.Items[0])
	got, _ := c.Get(t.Context(), "a", metav1.GetOptions{})
	if got.Labels["l"] != "a" || string(got.Data["k"]) != "v" {
		t.Errorf("spoilt: %+v", got)
	}
}

func TestHook(t *testing.T) {
	t.Parallel()
	server := apitest.NewServer()
	boom := errors.New("boom")
	var hooked apitest.Hook
	client := server.Client(func(ctx context.Context, c apitest.Call) error { return hooked(ctx, c) })
	c := client.Secrets("ns")

	hooked = func(context.Context, apitest.Call) error { return boom }
	if _, err := c.Create(t.Context(), secret("a"), metav1.CreateOptions{}); !errors.Is(err, boom) {
		t.Errorf("failing hook: %v", err)
	}
	hand := server.Client(nil).Secrets("ns")
	if _, err := hand.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was created all the same: %v", err)
	}
	hooked = func(context.Context, apitest.Call) error { return apitest.AnswerLost(boom) }
	if s, err := c.Create(t.Context(), secret("a"), metav1.CreateOptions{}); err != boom || s != nil { //nolint:errorlint // not wrapped
		t.Errorf("lost answer: %v %v", s, err)
	}
	if _, err := hand.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("it was not created: %v", err)
	}
	hooked = func(ctx context.Context, _ apitest.Call) error { // another action first
		return hand.Delete(ctx, "a", metav1.DeleteOptions{})
	}
	if _, err := c.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the hook's delete: %v", err)
	}
	if got := client.Count("create"); got != 2 || client.Count() != 3 || client.Calls()[2] != (apitest.Call{Verb: "get", Resource: apitest.Secrets, Namespace: "ns", Name: "a"}) {
		t.Errorf("log: %v", client.Calls())
	}
	client.Forget()
	if client.Count() != 0 {
		t.Error("not forgotten")
	}
}

func TestCancelledContextAndEmptyName(t *testing.T) {
	t.Parallel()
	c := apitest.NewServer().Client(nil).Secrets("ns")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Create(ctx, secret("a"), metav1.CreateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	if _, err := c.Get(t.Context(), "", metav1.GetOptions{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("get without a name: %v", err)
	}
	if _, err := c.Update(t.Context(), &corev1.Secret{}, metav1.UpdateOptions{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("update without a name: %v", err)
	}
}

func TestViewFollowsAndLags(t *testing.T) {
	t.Parallel()
	server := apitest.NewServer()
	c := server.Client(nil).Secrets("ns")
	early := create(t, c, secret("early"))
	view := server.ViewSecrets("ns", "t", cache.Indexers{})
	var heard []string
	view.Handle(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { heard = append(heard, "add "+o.(metav1.Object).GetName()) },
		UpdateFunc: func(_, o any) { heard = append(heard, "update "+o.(metav1.Object).GetName()) },
		DeleteFunc: func(o any) { heard = append(heard, "delete "+o.(metav1.Object).GetName()) },
	})
	odd := secret("odd")
	odd.Type = "u"
	create(t, c, odd)
	view.Hold()
	create(t, c, secret("late"))
	early.Labels["l"] = "x"
	if _, err := c.Update(t.Context(), early, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := view.Indexer().ListKeys(); !slices.Equal(got, []string{"ns/early"}) {
		t.Errorf("held: %v", got)
	}
	if !view.Step() || len(view.Indexer().ListKeys()) != 2 {
		t.Errorf("after a step: %v", view.Indexer().ListKeys())
	}
	view.Release()
	if view.Step() {
		t.Error("a step although in step")
	}
	object, found, _ := view.Indexer().GetByKey("ns/early")
	if m, ok := object.(*metav1.PartialObjectMetadata); !found || !ok || m.Labels["l"] != "x" || m.Kind != "Secret" {
		t.Errorf("early: %v", object)
	}
	if want := []string{"add early", "add late", "update early", "delete late"}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	server := apitest.NewServer()
	nodes := server.Client(nil).Nodes()
	view := server.ViewNodes(cache.Indexers{})
	made, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil || made.Namespace != "" {
		t.Fatal(made, err)
	}
	made.Spec.ProviderID = "p"
	if _, err = nodes.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := nodes.Get(t.Context(), "n", metav1.GetOptions{}); err != nil || got.Spec.ProviderID != "p" {
		t.Error(got, err)
	}
	if o, found, _ := view.Indexer().GetByKey("n"); !found || o.(*corev1.Node).Spec.ProviderID != "p" {
		t.Error(o)
	}
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil || len(view.Indexer().ListKeys()) != 0 {
		t.Error(err)
	}
}

func TestPatchOfANode(t *testing.T) {
	t.Parallel()
	nodes := apitest.NewServer().Client(nil).Nodes()
	first, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{ProviderID: "p", Taints: []corev1.Taint{{Key: "old"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(text string) (*corev1.Node, error) {
		return nodes.Patch(t.Context(), "n", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{})
	}
	got, err := patch(`{"metadata": {"uid": "` + string(first.UID) + `", "resourceVersion": "` + first.ResourceVersion +
		`", "labels": {"c": "d"}}, "spec": {"taints": [{"key": "new"}]}}`)
	if err != nil || got.Labels["a"] != "b" || got.Labels["c"] != "d" || got.Spec.ProviderID != "p" || got.UID != first.UID ||
		len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "new" || got.ResourceVersion == first.ResourceVersion {
		t.Errorf("%+v, %v", got, err)
	}
	for name, stale := range map[string]string{
		"version": `{"metadata": {"resourceVersion": "` + first.ResourceVersion + `", "labels": {"x": "y"}}}`,
		"uid":     `{"metadata": {"uid": "other", "labels": {"x": "y"}}}`,
	} {
		if _, err := patch(stale); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err = patch(`{"metadata": {"labels": null}}`); err != nil || len(got.Labels) != 0 {
		t.Errorf("null: %v, %v", got.Labels, err)
	}
	if _, err := patch(`nonsense`); err == nil {
		t.Error("nonsense is taken")
	}
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := patch(`{}`); !apierrors.IsNotFound(err) {
		t.Errorf("gone: %v", err)
	}
}

func TestOneOfManyCreatorsWins(t *testing.T) {
	t.Parallel()
	server := apitest.NewServer()
	var won sync.Map
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if s, err := server.Client(nil).Secrets("ns").Create(t.Context(), secret("a"), metav1.CreateOptions{}); err == nil {
				won.Store(i, s)
			}
		})
	}
	group.Wait()
	n := 0
	won.Range(func(_, _ any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d won", n)
	}
}
