package artifact

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

func testHost() Host {
	return Host{Name: "worker-1", Token: bootstraptoken.NewToken("abcdef", "0123456789abcdef"), NodeIP: netip.MustParseAddr("192.0.2.7")}
}

func TestRenderHostGolden(t *testing.T) {
	t.Parallel()
	settings := NodeSettings{
		NameTemplate:     "{{.InstanceID}}",
		Labels:           map[string]string{"example.org/pool": "home"},
		Taints:           []corev1.Taint{{Key: "example.org/storage", Effect: corev1.TaintEffectNoSchedule}},
		KubeletExtraArgs: []Arg{{Name: "max-pods", Value: "50"}},
	}
	plain := testHost()
	plain.NodeIP = netip.Addr{}
	for name, tt := range map[string]struct {
		host     Host
		settings NodeSettings
		cfg      Config
	}{
		"host":           {testHost(), settings, Config{}},
		"host-plain":     {plain, NodeSettings{}, Config{}},
		"host-v1beta3":   {testHost(), settings, Config{APIVersion: V1Beta3, Server: "https://10.99.0.1:6443"}},
		"host-with-user": {testHost(), NodeSettings{}, Config{TokenInKubeconfig: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kubeconfig, join, err := RenderHost(testCluster(t), tt.host, tt.settings, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+"-kubeconfig.yaml", kubeconfig)
			golden(t, name+"-join.yaml", join)
			for _, not := range []string{"provider-id", "ec2-instance-id", "topology"} {
				if strings.Contains(string(join), not) {
					t.Errorf("%s in the join configuration of a host", not)
				}
			}
		})
	}
}

func TestRenderHostRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Host, *NodeSettings, *Cluster, *Config)
		want   string
	}{
		"no name":     {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.Name = "" }, "needs a name"},
		"instance id": {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.Name = "i-0123456789abcdef0" }, "EC2 instance id"},
		"capitals":    {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.Name = "Worker" }, "lower case"},
		"too long":    {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.Name = strings.Repeat("a", 64) }, "at most 63"},
		"token":       {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.Token = bootstraptoken.NewToken("a", "hush") }, "form kubeadm wants"},
		"loopback":    {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.NodeIP = netip.MustParseAddr("127.0.0.1") }, "node IP 127.0.0.1"},
		"zone":        {func(h *Host, _ *NodeSettings, _ *Cluster, _ *Config) { h.NodeIP = netip.MustParseAddr("fd00::1%eth0") }, "node IP fd00::1%eth0"},
		"host label": {func(_ *Host, s *NodeSettings, _ *Cluster, _ *Config) {
			s.Labels = map[string]string{"dynk8s.du5t1n.me/host": "x"}
		}, "cannot be set"},
		"reserved flag":  {func(_ *Host, s *NodeSettings, _ *Cluster, _ *Config) { s.KubeletExtraArgs = []Arg{{"node-ip", "::1"}} }, "node-ip"},
		"no CA":          {func(_ *Host, _ *NodeSettings, c *Cluster, _ *Config) { c.CAData = nil }, "no CA"},
		"http server":    {func(_ *Host, _ *NodeSettings, _ *Cluster, c *Config) { c.Server = "http://10.0.0.1" }, "no https URL"},
		"other version":  {func(_ *Host, _ *NodeSettings, _ *Cluster, c *Config) { c.APIVersion = "v1" }, "is not known"},
		"discovery file": {func(_ *Host, _ *NodeSettings, _ *Cluster, c *Config) { c.DiscoveryFile = "x" }, "absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, s, c, cfg := testHost(), NodeSettings{}, testCluster(t), Config{}
			tt.change(&h, &s, &c, &cfg)
			_, _, err := RenderHost(c, h, s, cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
