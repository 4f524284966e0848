package artifact

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// quiet keeps expected warnings out of the test's output.
var quiet = slog.New(slog.DiscardHandler)

type fetch func(context.Context, instance.ID) ([]byte, error)

func fetches(r *Renderer) map[string]fetch {
	return map[string]fetch{"wireguard": r.WireGuardConfig, "kubeconfig": r.Kubeconfig, "join": r.JoinConfiguration}
}

func TestWireGuardConfigByteForByte(t *testing.T) {
	t.Parallel()
	g := testGrant()
	g.WireGuardConfig = []byte("\ufeff[Interface]\r\nno address, \x00\xff and no line end")
	r := New(fixedGrants{g}, fixedCluster{}, Config{Logger: quiet})
	got, err := r.WireGuardConfig(t.Context(), testID)
	if err != nil || !bytes.Equal(got, g.WireGuardConfig) {
		t.Errorf("got %q, %v", got, err)
	}
	g.WireGuardConfig = nil
	_, err = New(fixedGrants{g}, fixedCluster{}, Config{}).WireGuardConfig(t.Context(), testID)
	if !errors.Is(err, errEmptyWireGuardConfig) {
		t.Errorf("an empty one: %v", err)
	}
}

func TestRendererPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("the API server is away")
	tests := map[string]struct {
		grants Grants
		want   error
	}{
		"not allocated":    {failingGrants{lifecycle.ErrNotAllocated}, lifecycle.ErrNotAllocated},
		"broken":           {failingGrants{broken}, broken},
		"another instance": {mixedUpGrants{}, errOtherInstance},
	}
	for name, tt := range tests {
		for artifact, get := range fetches(New(tt.grants, fixedCluster{testCluster(t)}, Config{Logger: quiet})) {
			if got, err := get(t.Context(), testID); !errors.Is(err, tt.want) || got != nil {
				t.Errorf("%s, %s: got %q, %v", artifact, name, got, err)
			}
		}
	}
	r := New(fixedGrants{testGrant()}, failingCluster{broken}, Config{Logger: quiet})
	if _, err := r.Kubeconfig(t.Context(), testID); !errors.Is(err, broken) {
		t.Errorf("without cluster-info: %v", err)
	}
	if _, err := r.JoinConfiguration(t.Context(), testID); err != nil {
		t.Errorf("a join configuration needs no cluster-info: %v", err)
	}
}

func TestRendererUsesTheProfile(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	r := New(fixedGrants{testGrant()}, fixedCluster{testCluster(t)},
		Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	r.SetNodeSettings(map[string]NodeSettings{"worker": {NameTemplate: "w-{{.InstanceID}}"}})
	got, err := r.JoinConfiguration(t.Context(), testID)
	if err != nil || !strings.Contains(string(got), "name: w-i-0123456789abcdef0") || logged.Len() > 0 {
		t.Errorf("got %s, %v, logged %s", got, err, &logged)
	}
	r.SetNodeSettings(map[string]NodeSettings{"other": {}})
	got, err = r.JoinConfiguration(t.Context(), testID)
	if err != nil || !strings.Contains(string(got), "name: w-i-0123456789abcdef0") || logged.Len() > 0 {
		t.Errorf("profile removed by a reload: got %s, %v, logged %s", got, err, &logged)
	}
	r = New(fixedGrants{testGrant()}, fixedCluster{testCluster(t)},
		Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	r.SetNodeSettings(map[string]NodeSettings{"other": {NameTemplate: "w-{{.InstanceID}}"}})
	got, err = r.JoinConfiguration(t.Context(), testID)
	if err != nil || !strings.Contains(string(got), "name: i-0123456789abcdef0") {
		t.Errorf("profile removed before the start: got %s, %v", got, err)
	}
	for _, part := range []string{"level=WARN", "instance=" + string(testID), "profile=worker"} {
		if !strings.Contains(logged.String(), part) {
			t.Errorf("logged %q, want %q", &logged, part)
		}
	}
}

// Settings change while instances fetch: under -race.
func TestSetNodeSettingsWhileRendering(t *testing.T) {
	t.Parallel()
	r := New(fixedGrants{testGrant()}, fixedCluster{testCluster(t)}, Config{Logger: quiet})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r.SetNodeSettings(map[string]NodeSettings{"worker": fullSettings()})
				for artifact, get := range fetches(r) {
					if _, err := get(t.Context(), testID); err != nil {
						t.Errorf("%s: %v", artifact, err)
					}
				}
			}
		})
	}
	wg.Wait()
}
