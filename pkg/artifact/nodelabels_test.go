package artifact

import (
	"maps"
	"strings"
	"testing"
)

func TestRegionOf(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"us-east-2a":              "us-east-2",
		"ap-southeast-14b":        "ap-southeast-14",
		"us-gov-west-1a":          "us-gov-west-1",
		"us-isob-east-1a":         "us-isob-east-1",
		"eusc-de-east-1a":         "eusc-de-east-1",
		"us-west-2-lax-1a":        "",
		"us-east-1-wl1-bos-wlz-1": "",
		"us-east-2":               "",
		"use2-az1":                "",
		"us-east-2aa":             "",
		"":                        "",
		"a\nus-east-2a":           "",
	}
	for zone, want := range tests {
		if got, ok := regionOf(zone); got != want || ok != (want != "") {
			t.Errorf("region of %q is %q, %v, want %q", zone, got, ok, want)
		}
	}
}

func TestNodeLabels(t *testing.T) {
	t.Parallel()
	s := NodeSettings{Labels: map[string]string{"topology.kubernetes.io/zone": "cloud", "pool": "burst"}}
	want := map[string]string{
		"topology.kubernetes.io/zone":      "cloud", // the operator's word counts
		"topology.kubernetes.io/region":    "us-east-2",
		"node.kubernetes.io/instance-type": "t3.small",
		"dynk8s.du5t1n.me/ec2-instance-id": "i-0123456789abcdef0",
		"pool":                             "burst",
	}
	got, err := nodeLabels(s, testGrant())
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if len(s.Labels) != 2 {
		t.Errorf("the settings were changed: %q", s.Labels)
	}
}

func TestValidateLabels(t *testing.T) {
	t.Parallel()
	good := []string{
		"pool", "du5t1n.me/pool", "kubelet.kubernetes.io/a", "node.kubernetes.io/b", "x.node.kubernetes.io/c",
		"kubernetes.io/arch", "notkubernetes.io/a",
	}
	for _, key := range good {
		if err := validateLabels(map[string]string{key: "v"}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	bad := map[string]struct{ key, value, want string }{
		"node role":         {"node-role.kubernetes.io/worker", "", "may not give itself"},
		"restricted":        {"node-restriction.kubernetes.io/a", "", "may not give itself"},
		"kubernetes.io":     {"kubernetes.io/a", "", "may not give itself"},
		"k8s.io":            {"x.k8s.io/a", "", "may not give itself"},
		"ours":              {instanceLabel, "i-11111111111111111", "cannot be set"},
		"empty key":         {"", "v", "name part"},
		"key with comma":    {"a,b", "v", "name part"},
		"key with equals":   {"a=b", "v", "name part"},
		"value with comma":  {"a", "b,c=d", "value"},
		"value with equals": {"a", "b=c", "value"},
		"value with quote":  {"a", `b"`, "value"},
		"value with space":  {"a", "b c", "value"},
		"value, line end":   {"a", "b\nkind: Pod", "value"},
		"value, last \\n":   {"a", "b\n", "value"},
		"value too long":    {"a", strings.Repeat("b", 64), "value"},
	}
	for name, tt := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantError(t, validateLabels(map[string]string{tt.key: tt.value}), "node label", tt.want)
		})
	}
}
