package host

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// fixedCluster always answers.
type fixedCluster struct {
	cluster artifact.Cluster
	err     error
}

func (f fixedCluster) ClusterInfo(context.Context) (artifact.Cluster, error) { return f.cluster, f.err }

// newRegistrar returns one over an API server of its own, and a hand there.
func newRegistrar(t *testing.T) (Registrar, *apitest.Client) {
	t.Helper()
	ca, err := os.ReadFile("../artifact/testdata/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	server := apitest.NewServer()
	client := server.Client(nil)
	return Registrar{
		Tokens:  bootstraptoken.NewHostIssuer(client.Secrets(metav1.NamespaceSystem)),
		Nodes:   node.New(client.Nodes(), nil),
		Cluster: fixedCluster{cluster: artifact.Cluster{Server: "https://192.0.2.1:6443", CAData: ca}},
	}, server.Client(nil)
}

func request() Request {
	return Request{Name: "worker-1", Profile: "home", Token: bootstraptoken.Settings{TTL: time.Hour}, NodeIP: netip.MustParseAddr("192.0.2.7")}
}

func putNode(t *testing.T, hand *apitest.Client, n *corev1.Node) {
	t.Helper()
	if _, err := hand.Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAddTwice(t *testing.T) {
	t.Parallel()
	r, hand := newRegistrar(t)
	first, err := r.Add(t.Context(), request())
	if err != nil || first.How != bootstraptoken.Made || first.Replaces {
		t.Fatal(first.How, err)
	}
	if join := string(first.JoinConfiguration); !strings.Contains(join, first.Token.Token.Reveal()) || !strings.Contains(join, "name: worker-1") {
		t.Error("the join configuration is another's")
	}
	putNode(t, hand, readyNode("worker-1", corev1.ConditionFalse))
	second, err := r.Add(t.Context(), request())
	if err != nil || second.How == bootstraptoken.Made || !second.Replaces || second.Token.Token.Reveal() != first.Token.Token.Reveal() {
		t.Error(second.How, second.Replaces, err)
	}
}

// What refuses a host leaves no token behind.
func TestAddRefuses(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for name, tt := range map[string]struct {
		change func(*testing.T, *Registrar, *apitest.Client, *Request)
		want   string
	}{
		"Ready node": {func(t *testing.T, _ *Registrar, hand *apitest.Client, _ *Request) {
			putNode(t, hand, readyNode("worker-1", corev1.ConditionTrue))
		}, "node worker-1 is Ready, and kubeadm refuses"},
		"an instance's node": {func(t *testing.T, _ *Registrar, hand *apitest.Client, _ *Request) {
			n := readyNode("worker-1", corev1.ConditionFalse)
			n.Spec.ProviderID = "aws:///us-east-2a/i-0123456789abcdef0"
			putNode(t, hand, n)
		}, "EC2 instance i-0123456789abcdef0"},
		"instance id": {func(_ *testing.T, _ *Registrar, _ *apitest.Client, q *Request) { q.Name = "i-0123456789abcdef0" }, "EC2 instance id"},
		"no cluster-info": {func(_ *testing.T, r *Registrar, _ *apitest.Client, _ *Request) {
			r.Cluster = fixedCluster{err: away}
		}, "away"},
		"what cannot be rendered": {func(_ *testing.T, _ *Registrar, _ *apitest.Client, q *Request) {
			q.Artifacts.Server = "http://192.0.2.1"
		}, "no https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, hand := newRegistrar(t)
			q := request()
			tt.change(t, &r, hand, &q)
			if _, err := r.Add(t.Context(), q); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if tokens, err := r.Tokens.All(t.Context()); err != nil || len(tokens) > 0 {
				t.Errorf("tokens %v, %v", tokens, err)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	ours := readyNode("worker-1", corev1.ConditionTrue)
	ours.Labels = map[string]string{bootstraptoken.HostLabel: "worker-1"}
	another := readyNode("worker-1", corev1.ConditionTrue)
	another.Labels = map[string]string{bootstraptoken.HostLabel: "worker-2"}
	inEC2 := readyNode("worker-1", corev1.ConditionTrue)
	inEC2.Labels = ours.Labels
	inEC2.Spec.ProviderID = "aws:///us-east-2a/i-0123456789abcdef0"
	for name, tt := range map[string]struct {
		node  *corev1.Node
		force bool
		gone  bool
		want  string
	}{
		"no node":            {nil, false, false, ""},
		"its node":           {ours, false, true, ""},
		"by other means":     {readyNode("worker-1", corev1.ConditionTrue), false, false, "--force"},
		"another's label":    {another, false, false, "--force"},
		"by force":           {readyNode("worker-1", corev1.ConditionTrue), true, true, ""},
		"an instance's":      {inEC2, false, false, "EC2 instance"},
		"an instance, force": {inEC2, true, false, "EC2 instance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, hand := newRegistrar(t)
			added, err := r.Add(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if tt.node != nil {
				putNode(t, hand, tt.node)
			}
			removed, err := r.Remove(t.Context(), "worker-1", tt.force)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if removed.Node != tt.gone || len(removed.TokenIDs) != 1 || removed.TokenIDs[0] != added.Token.Token.ID() {
				t.Errorf("%+v", removed)
			}
			again, err := r.Remove(t.Context(), "worker-1", tt.force)
			if (err == nil) != (tt.want == "") || again.Node || len(again.TokenIDs) > 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
	r, _ := newRegistrar(t)
	if _, err := r.Remove(t.Context(), "i-0123456789abcdef0", true); err == nil {
		t.Error("an instance was removed")
	}
}
