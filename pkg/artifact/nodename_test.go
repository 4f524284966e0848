package artifact

import (
	"strings"
	"testing"
)

func TestNodeName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ template, want string }{
		"default":          {"", "i-0123456789abcdef0"},
		"instance id":      {"{{.InstanceID}}", "i-0123456789abcdef0"},
		"DNS name":         {"{{.PrivateDNSName}}", "ip-10-0-12-34.us-east-2.compute.internal"},
		"all":              {"{{.Profile}}-{{.Zone}}.{{.InstanceType}}", "worker-us-east-2a.t3.small"},
		"YAML's line end":  {"{{.InstanceID}}\n", "i-0123456789abcdef0"},
		"built-in":         {`n-{{slice .InstanceID 2}}`, "n-0123456789abcdef0"},
		"63 characters":    {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"looks like a num": {"123", "123"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NodeName(NodeSettings{NameTemplate: tt.template}, testGrant())
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestNodeNameRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ template, want string }{
		"nothing":            {"{{if false}}a{{end}}", "renders to nothing"},
		"white space":        {" \n ", "renders to nothing"},
		"upper case":         {"Node-{{.InstanceID}}", "lowercase"},
		"underscore":         {"a_b", "lowercase"},
		"line end inside":    {"a\nb: c", "lowercase"},
		"ends with a dash":   {"{{.InstanceID}}-", "lowercase"},
		"too long":           {strings.Repeat("a", 64), "at most 63"},
		"much too long":      {`{{printf "%01000000d" 1}}`, "at most 63"},
		"unknown field":      {"{{.Hostname}}", "Hostname"},
		"the token":          {"{{.Token}}", "Token"},
		"the WireGuard key":  {"{{.WireGuardConfig}}", "WireGuardConfig"},
		"does not parse":     {"{{.InstanceID", "node-name template"},
		"unknown function":   {"{{lower .InstanceID}}", "lower"},
		"fails when run":     {"{{slice .InstanceID 99}}", "node-name template"},
		"index of no list":   {"{{index .InstanceID .Zone}}", "node-name template"},
		"template of itself": {`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, "node-name template"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NodeName(NodeSettings{NameTemplate: tt.template}, testGrant())
			wantError(t, err, tt.want)
			if got != "" {
				t.Errorf("name %q beside the error", got)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}
