package wireguardkey

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
)

func TestExhaustionIsToldOnceUntilAKeyIsFreed(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	c.allocate(t, "key-1", instanceA)
	c.events()
	exhaust := func(wantTold bool) {
		t.Helper()
		c.log.Reset()
		for range 3 {
			_, err := c.Choose(t.Context(), instanceB, nil, nil)
			wantError(t, err, ErrExhausted)
		}
		want := 0
		if wantTold {
			want = 1
		}
		if got := strings.Count(c.log.String(), "wireguard key pool is exhausted"); got != want {
			t.Errorf("logged %d times, want %d", got, want)
		}
		events := c.events()
		if len(events) != want || want == 1 && !strings.HasPrefix(events[0], "Warning WireGuardKeysExhausted ") {
			t.Errorf("events %q", events)
		}
	}
	exhaust(true)
	exhaust(false)
	if _, err := c.Release(t.Context(), c.get(t, "key-1"), instanceA); err != nil {
		t.Fatal(err)
	}
	c.allocate(t, "key-1", instanceA)
	c.events()
	exhaust(true)
	c.put(t, "key-2", nil) // the operator adds one
	c.allocate(t, "key-2", instanceA)
	c.events()
	exhaust(true)
}

func freed(c *cluster) bool {
	select {
	case <-c.Freed():
		return true
	default:
		return false
	}
}

func TestFreedSignals(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	want := func(what string, want bool) {
		t.Helper()
		if got := freed(c); got != want {
			t.Errorf("%s: signalled %v", what, got)
		}
	}
	want("nothing yet", false)
	c.put(t, "key-1", nil)
	c.put(t, "key-2", nil)
	want("new keys", true)
	want("two keys, one signal", false)
	c.edit(t, "key-1", func(s *corev1.Secret) { s.Labels["site"] = "home" })
	want("free before", false)
	c.handOut(t, "key-1", instanceA)
	want("taken", false)
	c.edit(t, "key-1", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" })
	want("emptied by hand: not free", false)
	c.view.Hold()
	if _, err := c.Release(t.Context(), c.get(t, "key-1"), instanceA); err != nil {
		t.Fatal(err)
	}
	want("the cache is behind", false)
	c.view.Release()
	want("released", true)
	if err := c.hand.Delete(t.Context(), "key-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("deleted", false)
}

func TestSignalComesAfterTheIndexKnows(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	done := make(chan error)
	go func() {
		<-c.Freed()
		_, err := c.Choose(t.Context(), instanceA, nil, nil)
		done <- err
	}()
	c.put(t, "key-1", nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	want := func(free, allocated, lost string) {
		t.Helper()
		text := `
# HELP dynk8s_wireguard_keys WireGuard keys of the pool by state: free, allocated, lost (allocated, but the label was removed by hand).
# TYPE dynk8s_wireguard_keys gauge
dynk8s_wireguard_keys{state="allocated"} ` + allocated + `
dynk8s_wireguard_keys{state="free"} ` + free + `
dynk8s_wireguard_keys{state="lost"} ` + lost + "\n"
		if err := testutil.GatherAndCompare(c.registry, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	want("0", "0", "0")
	for _, name := range []string{"a", "b", "c", "d"} {
		c.put(t, name, nil)
	}
	want("4", "0", "0")
	c.allocate(t, "a", instanceA)
	c.allocate(t, "b", instanceA)
	c.handOut(t, "c", instanceB)
	want("1", "3", "0")
	c.edit(t, "c", func(s *corev1.Secret) { s.Labels = nil })
	want("1", "2", "1")
	c.put(t, "not in the pool", func(s *corev1.Secret) { s.Labels = nil })
	want("1", "2", "1")
}

func TestInformerAsksForKeysOnly(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	asked := make(chan clientgotesting.ListAction, 1)
	client.PrependReactor("list", "secrets", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		select {
		case asked <- action.(clientgotesting.ListAction):
		default:
		}
		return true, &metav1.List{}, nil
	})
	informer := NewInformer(client, namespace)
	go informer.RunWithContext(t.Context())
	got := <-asked
	if r := got.GetListRestrictions(); !r.Labels.Empty() || r.Fields.String() != "type="+string(SecretType) || got.GetNamespace() != namespace {
		t.Errorf("labels %q, fields %q, namespace %q", r.Labels, r.Fields, got.GetNamespace())
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	p := NewPool(c.hand, c.view.Indexer(), Config{})
	if err := p.Allocate(t.Context(), c.get(t, "key-1"), instanceA); err != nil {
		t.Error(err)
	}
	if _, err := p.Choose(t.Context(), instanceB, nil, nil); err == nil {
		t.Error("chosen from an empty pool")
	}
}
