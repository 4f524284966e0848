package artifact

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

func TestRenderJoinConfiguration(t *testing.T) {
	t.Parallel()
	bare := testGrant()
	bare.PrivateDNSName, bare.InstanceType = "", ""
	localZone := testGrant()
	localZone.Zone = "us-west-2-lax-1a"
	ipv6 := testGrant()
	ipv6.WireGuardConfig = []byte("[Interface]\nAddress = fd00:99::7/64, 10.99.0.7/24\n")
	tests := map[string]struct {
		grant    lifecycle.Grant
		settings NodeSettings
		cfg      Config
	}{
		"join-v1beta4.yaml":            {testGrant(), NodeSettings{}, Config{}},
		"join-v1beta4-full.yaml":       {testGrant(), fullSettings(), Config{APIVersion: V1Beta4, DiscoveryFile: "/run/discovery.conf"}},
		"join-v1beta4-bare.yaml":       {bare, NodeSettings{}, Config{}},
		"join-v1beta4-local-zone.yaml": {localZone, NodeSettings{}, Config{}},
		"join-v1beta4-ipv6.yaml":       {ipv6, NodeSettings{}, Config{}},
		"join-v1beta3.yaml":            {testGrant(), NodeSettings{}, Config{APIVersion: V1Beta3}},
		"join-v1beta3-full.yaml":       {testGrant(), fullSettings(), Config{APIVersion: V1Beta3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := renderJoinConfiguration(tt.grant, tt.settings, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
		})
	}
}

func TestRenderJoinConfigurationRefuses(t *testing.T) {
	t.Parallel()
	change := func(f func(*lifecycle.Grant)) lifecycle.Grant {
		g := testGrant()
		f(&g)
		return g
	}
	good := testGrant()
	twice := NodeSettings{KubeletExtraArgs: []Arg{{"v", "1"}, {"v", "2"}}}
	tests := map[string]struct {
		grant    lifecycle.Grant
		settings NodeSettings
		cfg      Config
		want     string
	}{
		"no zone":             {change(func(g *lifecycle.Grant) { g.Zone = "" }), NodeSettings{}, Config{}, "availability zone"},
		"zone with slash":     {change(func(g *lifecycle.Grant) { g.Zone = "us-east-2a/../x" }), NodeSettings{}, Config{}, "availability zone"},
		"zone with comma":     {change(func(g *lifecycle.Grant) { g.Zone = "a-b,node-role.kubernetes.io/control-plane=" }), NodeSettings{}, Config{}, "availability zone"},
		"instance type":       {change(func(g *lifecycle.Grant) { g.InstanceType = "t3,a=b" }), NodeSettings{}, Config{}, "instance-type"},
		"no token":            {change(func(g *lifecycle.Grant) { g.Token = bootstraptoken.Token{} }), NodeSettings{}, Config{}, "bootstrap token"},
		"no WireGuard config": {change(func(g *lifecycle.Grant) { g.WireGuardConfig = nil }), NodeSettings{}, Config{}, "no Address"},
		"no DNS name":         {change(func(g *lifecycle.Grant) { g.PrivateDNSName = "" }), NodeSettings{NameTemplate: "{{.PrivateDNSName}}"}, Config{}, "renders to nothing"},
		"bad label":           {good, NodeSettings{Labels: map[string]string{"a": "b,c=d"}}, Config{}, "node label a"},
		"bad taint":           {good, NodeSettings{Taints: []corev1.Taint{{Key: "a"}}}, Config{}, "taint 0"},
		"bad argument":        {good, NodeSettings{KubeletExtraArgs: []Arg{{"a", "b c"}}}, Config{}, "kubelet argument 0"},
		"bad CRI socket":      {good, NodeSettings{CRISocket: "/run/crio.sock"}, Config{}, "CRI socket"},
		"API version":         {good, NodeSettings{}, Config{APIVersion: "v1beta5"}, "use v1beta4 or v1beta3"},
		"whole API version":   {good, NodeSettings{}, Config{APIVersion: "kubeadm.k8s.io/v1beta4"}, "use v1beta4 or v1beta3"},
		"discovery file":      {good, NodeSettings{}, Config{DiscoveryFile: "discovery.conf"}, "absolute path"},
		"flag twice, v1beta3": {good, twice, Config{APIVersion: V1Beta3}, "stands twice"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := renderJoinConfiguration(tt.grant, tt.settings, tt.cfg)
			wantError(t, err, "join configuration", tt.want)
			if got != nil {
				t.Errorf("rendered beside the error: %s", got)
			}
		})
	}
	if _, err := renderJoinConfiguration(good, twice, Config{}); err != nil {
		t.Errorf("v1beta4 can say a flag twice: %v", err)
	}
}

// Whatever stands in settings and grant: either it is refused, or what kubeadm
// reads are the labels and arguments that were asked for and no others.
func FuzzRenderJoinConfiguration(f *testing.F) {
	f.Add("du5t1n.me/pool", "burst", "v", "2", "us-east-2a", "t3.small", "{{.InstanceID}}")
	f.Add("a", "b,c=d", "v", "2\n- name: x", "us-east-2a", "t3.small", "x")
	f.Add("a=b", "\"", "v: 1\n", "}", "a,b", "\nkind: x", "{{")
	f.Add("1e3", "0x10", "yes", "null", "a-b", "12_3", "123")
	f.Fuzz(func(t *testing.T, label, value, arg, argValue, zone, instanceType, name string) {
		if len(name) > 200 {
			return // a template may loop for long: it is the operator's
		}
		g := testGrant()
		g.Zone, g.InstanceType = zone, instanceType
		s := NodeSettings{NameTemplate: name, Labels: map[string]string{label: value}, KubeletExtraArgs: []Arg{{arg, argValue}}}
		for _, version := range []string{V1Beta4, V1Beta3} {
			rendered, err := renderJoinConfiguration(g, s, Config{APIVersion: version})
			if err == nil {
				checkJoin(t, rendered, g, s, version)
			}
		}
	})
}

func checkJoin(t *testing.T, rendered []byte, g lifecycle.Grant, s NodeSettings, version string) {
	t.Helper()
	args := readArgs(t, rendered, version)
	if len(args) != 4 || args["provider-id"] != "aws:///"+g.Zone+"/"+string(g.Instance) || args["node-ip"] != "10.99.0.7" {
		t.Errorf("kubelet arguments %q", args)
	}
	for _, a := range s.KubeletExtraArgs {
		if args[a.Name] != a.Value {
			t.Errorf("argument %q is %q, want %q", a.Name, args[a.Name], a.Value)
		}
	}
	labels, err := nodeLabels(s, g)
	if err != nil {
		t.Fatal(err)
	}
	pairs := strings.Split(args["node-labels"], ",")
	if len(pairs) != len(labels) {
		t.Errorf("%d labels in %q, want %q", len(pairs), args["node-labels"], labels)
	}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if want, found := labels[key]; !found || want != value {
			t.Errorf("label %q is not one of %q", pair, labels)
		}
	}
}

func readArgs(t *testing.T, rendered []byte, version string) map[string]string {
	t.Helper()
	args := map[string]string{}
	join := joinConfiguration{}
	if version == V1Beta3 {
		join.NodeRegistration.KubeletExtraArgs = &args
	} else {
		join.NodeRegistration.KubeletExtraArgs = &[]Arg{}
	}
	if err := yaml.UnmarshalStrict(rendered, &join); err != nil {
		t.Fatalf("cannot be read strictly: %v\n%s", err, rendered)
	}
	if list, ok := join.NodeRegistration.KubeletExtraArgs.(*[]Arg); ok {
		for _, a := range *list {
			args[a.Name] = a.Value
		}
	}
	if join.APIVersion != "kubeadm.k8s.io/"+version || join.Kind != "JoinConfiguration" {
		t.Errorf("rendered %s %s", join.APIVersion, join.Kind)
	}
	return args
}

// A token or a name that looks like a number must stay a string.
func TestRenderJoinConfigurationKeepsStrings(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"123456", "0x1234", "1e1000", "000000"} {
		g := testGrant()
		g.Token = bootstraptoken.NewToken(id, "0123456789012345")
		rendered, err := renderJoinConfiguration(g, NodeSettings{NameTemplate: "1e3"}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var join struct {
			Discovery        struct{ TLSBootstrapToken any }
			NodeRegistration struct{ Name any }
		}
		if err := yaml.Unmarshal(rendered, &join); err != nil {
			t.Fatal(err)
		}
		if join.Discovery.TLSBootstrapToken != id+".0123456789012345" || join.NodeRegistration.Name != "1e3" {
			t.Errorf("token %v, name %v", join.Discovery.TLSBootstrapToken, join.NodeRegistration.Name)
		}
	}
}
