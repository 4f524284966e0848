package artifact

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// Every failure there is, and nothing secret in what is said about it.
func TestFailuresHoldNoSecrets(t *testing.T) {
	t.Parallel()
	settings := map[string]NodeSettings{
		"token in the name": {NameTemplate: "{{.Token}}"},
		"grant in the name": {NameTemplate: "{{.}} {{printf \"%v\" .}}"},
		"fails in the name": {NameTemplate: "{{index . 1}}"},
		"name too long":     {NameTemplate: strings.Repeat("{{.InstanceID}}", 9)},
		"label":             {Labels: map[string]string{"a b": "c"}},
		"label value":       {Labels: map[string]string{"a": "c d"}},
		"taint":             {Taints: []corev1.Taint{{Key: "a b"}}},
		"argument":          {KubeletExtraArgs: []Arg{{"v", " "}}},
		"socket":            {CRISocket: "x"},
		"usable":            {},
	}
	configs := []Config{{}, {TokenInKubeconfig: true}, {Server: "http://a"}, {APIVersion: "v9"}, {DiscoveryFile: "x"}}
	clusters := []ClusterInfo{fixedCluster{testCluster(t)}, fixedCluster{}, fixedCluster{Cluster{Server: testServer}}}
	var said bytes.Buffer
	failures := 0
	for _, grant := range brokenGrants() {
		for name, s := range settings {
			for _, cfg := range configs {
				for _, c := range clusters {
					cfg.Logger = slog.New(slog.NewJSONHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
					r := New(fixedGrants{grant}, c, cfg)
					if name != "usable" {
						r.SetNodeSettings(map[string]NodeSettings{"worker": s})
					}
					for _, get := range fetches(r) {
						if _, err := get(t.Context(), grant.Instance); err != nil {
							failures++
							fmt.Fprintf(&said, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
						}
					}
				}
			}
		}
	}
	if failures < 100 || !strings.Contains(said.String(), "profile is not configured") {
		t.Errorf("only %d failures were seen", failures)
	}
	for _, secret := range []string{tokenSecret, privateKey, tokenSecret[:12], privateKey[:20]} {
		if i := strings.Index(said.String(), secret); i >= 0 {
			t.Errorf("%q was said: …%.300s", secret, said.String()[max(0, i-150):])
		}
	}
}

// brokenGrants returns grants with everything wrong that can be, and a good one.
func brokenGrants() []lifecycle.Grant {
	changes := []func(*lifecycle.Grant){
		func(*lifecycle.Grant) {},
		func(g *lifecycle.Grant) { g.Zone = "" },
		func(g *lifecycle.Grant) { g.InstanceType = "a b" },
		func(g *lifecycle.Grant) { g.WireGuardConfig = nil },
		func(g *lifecycle.Grant) { g.WireGuardConfig = []byte("[Interface]\nPrivateKey = " + privateKey) },
		func(g *lifecycle.Grant) { g.WireGuardConfig = []byte("[Interface]\nAddress = " + privateKey) },
		func(g *lifecycle.Grant) { g.WireGuardConfig = []byte("[Interface]\nAddress = 10.0.0.1/" + privateKey) },
		func(g *lifecycle.Grant) {
			g.WireGuardConfig = []byte("[Interface]\n" + privateKey + "\nAddress = [" + privateKey)
		},
		func(g *lifecycle.Grant) { g.Token = bootstraptoken.NewToken("TOOLONG", tokenSecret) },
		func(g *lifecycle.Grant) { g.Token = bootstraptoken.NewToken("5emitj", tokenSecret+"x") },
		func(g *lifecycle.Grant) { g.Token = bootstraptoken.NewToken("5emitj\n", tokenSecret) },
	}
	grants := make([]lifecycle.Grant, len(changes))
	for i, change := range changes {
		grants[i] = testGrant()
		change(&grants[i])
	}
	return grants
}
