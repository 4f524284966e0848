package artifact

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNodeSettingsValidate(t *testing.T) {
	t.Parallel()
	good := map[string]NodeSettings{
		"zero":      {},
		"full":      fullSettings(),
		"DNS names": {NameTemplate: "{{.PrivateDNSName}}"},
		"part":      {NameTemplate: "n{{slice .InstanceID 2 9}}"},
		"no slices": {Labels: map[string]string{}, Taints: []corev1.Taint{}, KubeletExtraArgs: []Arg{}},
	}
	for name, s := range good {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNodeSettingsValidateRefuses(t *testing.T) {
	t.Parallel()
	taint := func(key, value string, effect corev1.TaintEffect) NodeSettings {
		return NodeSettings{Taints: []corev1.Taint{{Key: key, Value: value, Effect: effect}}}
	}
	arg := func(name, value string) NodeSettings {
		return NodeSettings{KubeletExtraArgs: []Arg{{name, value}}}
	}
	twice := taint("a", "1", "NoSchedule")
	twice.Taints = append(twice.Taints, corev1.Taint{Key: "a", Value: "2", Effect: "NoSchedule"})
	tests := map[string]struct {
		settings NodeSettings
		want     string
	}{
		"one name for all":     {NodeSettings{NameTemplate: "{{.Zone}}-{{.Profile}}"}, "all instances get one name"},
		"template":             {NodeSettings{NameTemplate: "{{.Nope}}"}, "Nope"},
		"taint without key":    {taint("", "a", "NoSchedule"), "taint 0: key"},
		"taint's value":        {taint("a", "b,c", "NoSchedule"), "taint 0: value"},
		"taint's line end":     {taint("a\nb", "", "NoSchedule"), "taint 0: key"},
		"taint's effect":       {taint("a", "b", "noschedule"), "NoExecute"},
		"taint without effect": {taint("a", "b", ""), "effect"},
		"taint twice":          {twice, "taint 1"},
		"argument, no name":    {arg("", "a"), "argument 0"},
		"argument with dashes": {arg("--v", "2"), "no leading dashes"},
		"argument's equals":    {arg("v=2", ""), "no name of a flag"},
		"argument's name":      {arg("v\n- name: x", ""), "no name of a flag"},
		"value with space":     {arg("v", "2 --anonymous-auth=true"), "white space"},
		"value with line end":  {arg("v", "2\n"), "white space"},
		"value with quote":     {arg("v", `"2"`), "quotes"},
		"value with backslash": {arg("v", `\x20`), "backslashes"},
		"value with NUL":       {arg("v", "\x00"), "control"},
		"value, no UTF-8":      {arg("v", "\xff"), "control"},
		"our node-ip":          {arg("node-ip", "1.2.3.4"), "WireGuard"},
		"our provider-id":      {arg("provider-id", "x"), "instance"},
		"our labels":           {arg("node-labels", "a=b"), "node's labels"},
		"our name":             {arg("hostname-override", "x"), "template"},
		"our taints":           {arg("register-with-taints", "x"), "node's taints"},
		"our socket":           {arg("container-runtime-endpoint", "x"), "CRI socket"},
		"socket without path":  {NodeSettings{CRISocket: "unix://"}, "CRI socket"},
		"socket, two slashes":  {NodeSettings{CRISocket: "unix://run/crio.sock"}, "CRI socket"},
		"socket by TCP":        {NodeSettings{CRISocket: "tcp://127.0.0.1:1"}, "CRI socket"},
		"socket with line end": {NodeSettings{CRISocket: "unix:///a\nb"}, "CRI socket"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, tt.settings.Validate(), tt.want)
		})
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{}, {APIVersion: V1Beta3, Server: "https://[fd00::1]:6443", DiscoveryFile: "/a b"}} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, cfg := range []Config{{APIVersion: "v1"}, {Server: "http://a"}, {Server: "a"}, {DiscoveryFile: "a"}, {DiscoveryFile: "/a\nb"}} {
		if cfg.Validate() == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
