package bootstraptoken

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestInformerAsksForOurTokensOnly(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	asked := make(chan clientgotesting.ListRestrictions, 1)
	namespaces := make(chan string, 1)
	client.PrependReactor("list", "secrets", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		select {
		case asked <- action.(clientgotesting.ListAction).GetListRestrictions():
			namespaces <- action.GetNamespace()
		default:
		}
		return true, &metav1.List{}, nil
	})
	informer := NewInformer(client)
	go informer.RunWithContext(t.Context())
	got := <-asked
	if got.Labels.String() != InstanceLabel || got.Fields.String() != "type=bootstrap.kubernetes.io/token" {
		t.Errorf("labels %q, fields %q", got.Labels, got.Fields)
	}
	if namespace := <-namespaces; namespace != "kube-system" {
		t.Errorf("namespace %q", namespace)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster()
	view := c.server.ViewSecrets(metav1.NamespaceSystem, corev1.SecretTypeBootstrapToken, cache.Indexers{})
	reg := prometheus.NewPedanticRegistry()
	RegisterMetrics(reg, view.Indexer())
	claim := c.create(t, testRequest())
	other := testRequest()
	other.Instance.ID = "i-abcd1111"
	c.create(t, other)
	want := func(n string) {
		t.Helper()
		text := `
# HELP dynk8s_bootstrap_tokens Bootstrap tokens that this program made and that still exist.
# TYPE dynk8s_bootstrap_tokens gauge
dynk8s_bootstrap_tokens ` + n + "\n"
		if err := testutil.GatherAndCompare(reg, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	want("2")
	if _, err := c.Revoke(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	want("1")
}
