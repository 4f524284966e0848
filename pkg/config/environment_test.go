package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"DYNK8S_QUEUE_VISIBILITY_TIMEOUT=60s": "did you mean DYNK8S_QUEUE_VISIBILITYTIMEOUT?",
		"DYNK8S_PROFILES=x":                   "DYNK8S_PROFILES is not known and was ignored",
		"DYNK8S_log_level=x":                  "did you mean DYNK8S_LOG_LEVEL?",
		"DYNK8S_PORTS=x":                      "is not known",
		// What Kubernetes sets for Services dynk8s, dynk8s-provisioner, dynk8s-queue.
		"DYNK8S_SERVICE_HOST=10.0.0.1":                         "",
		"DYNK8S_PORT=tcp://10.0.0.1:80":                        "",
		"DYNK8S_PROVISIONER_SERVICE_HOST=10.0.0.1":             "",
		"DYNK8S_PROVISIONER_SERVICE_PORT=8080":                 "",
		"DYNK8S_PROVISIONER_SERVICE_PORT_ARTIFACTS=8080":       "",
		"DYNK8S_PROVISIONER_PORT=tcp://10.0.0.1:8080":          "",
		"DYNK8S_PROVISIONER_PORT_8080_TCP=tcp://10.0.0.1:8080": "",
		"DYNK8S_PROVISIONER_PORT_8080_TCP_PROTO=tcp":           "",
		"DYNK8S_PROVISIONER_PORT_8080_TCP_PORT=8080":           "",
		"DYNK8S_PROVISIONER_PORT_51820_UDP_ADDR=10.0.0.1":      "",
		"DYNK8S_QUEUE_PORT_8080_TCP_ADDR=10.0.0.1":             "",
		"DYNK8S_EMPTY=":  "",
		"dynk8s_lower=x": "",
		"MALFORMED":      "",
		"":               "",
	} {
		_, warnings, err := testSources(variable).parse([]byte(minimal))
		switch {
		case err != nil:
			t.Errorf("%s: %v", variable, err)
		case want == "" && len(warnings) > 0:
			t.Errorf("%s: warned %q", variable, warnings)
		case want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], want)):
			t.Errorf("%s: got %q, want %s", variable, warnings, want)
		}
	}
}

// A setting that looks like a Service's variable could be set by accident.
func TestNoSettingLooksLikeAService(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range settings {
		if serviceLink.MatchString(s.env()) || seen[s.env()] {
			t.Errorf("%s is ambiguous", s.env())
		}
		seen[s.env()] = true
	}
}

func TestRegions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, url, file string
		environ         []string
		queue, aws      string
	}{
		{"in the URL", "https://sqs.us-east-2.amazonaws.com/1/q", "", nil, "us-east-2", "us-east-2"},
		{"China", "https://sqs.cn-north-1.amazonaws.com.cn/1/q", "", nil, "cn-north-1", "cn-north-1"},
		{"GovCloud", "https://sqs.us-gov-west-1.amazonaws.com/1/q", "", nil, "us-gov-west-1", "us-gov-west-1"},
		{"sovereign cloud", "https://sqs.eusc-de-east-1.amazonaws.eu/1/q", "", nil, "eusc-de-east-1", "eusc-de-east-1"},
		{"FIPS", "https://sqs-fips.us-east-1.amazonaws.com/1/q", "", nil, "us-east-1", "us-east-1"},
		{"older form", "https://eu-west-1.queue.amazonaws.com/1/q", "", nil, "eu-west-1", "eu-west-1"},
		{"oldest form", "https://queue.amazonaws.com/1/q", "", nil, "us-east-1", "us-east-1"},
		{"VPC endpoint", "https://vpce-0123456789abcdef0-abcdefgh.sqs.us-east-2.vpce.amazonaws.com/1/q", "", nil, "us-east-2", "us-east-2"},
		{"stand-in, configured", "http://127.0.0.1:5000/1/q", "aws: {region: eu-west-1}", nil, "eu-west-1", "eu-west-1"},
		{"stand-in, queue's configured", "http://127.0.0.1:5000/1/q", "", []string{"DYNK8S_QUEUE_REGION=eu-west-1"}, "eu-west-1", "eu-west-1"},
		{"stand-in, by AWS's variable", "http://127.0.0.1:5000/1/q", "", []string{"AWS_REGION=eu-west-1"}, "eu-west-1", "eu-west-1"},
		{"stand-in, by AWS's other variable", "http://127.0.0.1:5000/1/q", "", []string{"AWS_DEFAULT_REGION=eu-west-1"}, "eu-west-1", "eu-west-1"},
		{"AWS's variable is not about the queue", "https://sqs.us-east-2.amazonaws.com/1/q", "", []string{"AWS_REGION=eu-west-1"}, "us-east-2", "eu-west-1"},
		{"configured over AWS's variable", "https://sqs.us-east-2.amazonaws.com/1/q", "aws: {region: us-east-2}", []string{"AWS_REGION=eu-west-1"}, "us-east-2", "us-east-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := strings.Replace(minimal, "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s", tt.url, 1) + tt.file
			c, warnings := mustParse(t, testSources(tt.environ...), file)
			if c.Queue.Region != tt.queue || c.AWS.Region != tt.aws {
				t.Errorf("queue in %s, instances in %s", c.Queue.Region, c.AWS.Region)
			}
			if warned := len(warnings) > 0; warned != (tt.queue != tt.aws) {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, yaml string
		sources    sources
		want       string
	}{
		{"configured", minimal + "kubernetes: {namespace: mine}", sources{environ: inPod, namespaceFile: file}, "mine"},
		{"variable", minimal, sources{environ: inPod, namespaceFile: file}, "dynk8s"},
		{"service account", minimal, sources{namespaceFile: file}, "from-file"},
	} {
		if c, _ := mustParse(t, tt.sources, tt.yaml); c.Kubernetes.Namespace != tt.want {
			t.Errorf("%s: got %s", tt.name, c.Kubernetes.Namespace)
		}
	}
	_, _, err := sources{namespaceFile: file + "x"}.parse([]byte(minimal))
	if err == nil || !strings.HasPrefix(err.Error(), "kubernetes.namespace: is empty") {
		t.Errorf("no pod: got %v", err)
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		minimal + "reconcile: {goneGrace: 5s}":                                                            "reconcile.goneGrace: ",
		minimal + "reconcile: {interval: 1h}":                                                             "profiles[0].bootstrapToken.ttl: 1h0m0s may end before a token is renewed",
		minimal + "artifacts: {identity: {required: false}}":                                              "artifacts.identity.required: ",
		selected("bootstrapToken: {extraGroups: ['"+kubeadmGroup+"']}") + "certificates: {approve: true}": "profiles[0].bootstrapToken.extraGroups: requests of",
		base + "profiles: [{name: a, matchAll: true}, {name: b, matchAll: true}]":                         "profiles[1]: never reached, as profiles[0]",
		base + "profiles: [{name: a, selector: [{key: k, absent: true}]}]":                                "profiles[0].selector: matches instances that are too young",
		base + "profiles: [{name: a, selector: [{key: k, notValues: [x]}, {key: l, absent: true}]}]":      "profiles[0].selector: matches instances that are too young",
	} {
		_, warnings := mustParse(t, testSources(), file)
		if len(warnings) != 1 || !strings.HasPrefix(warnings[0], want) {
			t.Errorf("got %q, want %s", warnings, want)
		}
	}
	_, warnings := mustParse(t, sources{environ: inPod}, minimal)
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], "artifacts.identity.accounts: empty") || !strings.HasPrefix(warnings[1], "artifacts.tls: plain HTTP") {
		t.Errorf("without accounts, TLS and proxy: %q", warnings)
	}
}
