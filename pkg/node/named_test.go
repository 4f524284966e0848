package node

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

// Named reads the API server, not the cache.
func TestNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, makeNode("home", "", corev1.ConditionFalse), makeNode("ec2", providerID(instanceA), corev1.ConditionTrue))
	c.view.Hold()
	c.put(t, makeNode("new", "", corev1.ConditionTrue))
	for name, want := range map[string]Node{
		"home": {Name: "home"},
		"new":  {Name: "new", ReadySince: readyAt},
		"ec2":  {Name: "ec2", InstanceID: instanceA, ReadySince: readyAt},
	} {
		got, found, err := c.Named(t.Context(), name)
		if err != nil || !found || got.Name != name || got.InstanceID != want.InstanceID || !got.ReadySince.Equal(want.ReadySince) {
			t.Errorf("%s: %+v, %v, %v", name, got, found, err)
		}
	}
	if got, found, err := c.Named(t.Context(), "nobody"); err != nil || found {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
	away := errors.New("away")
	c.hook = func(context.Context, apitest.Call) error { return away }
	if _, _, err := c.Named(t.Context(), "home"); !errors.Is(err, away) {
		t.Error(err)
	}
}
