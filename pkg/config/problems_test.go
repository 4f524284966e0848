package config

import (
	"fmt"
	"strings"
	"testing"
)

// base is a file to which a test adds one section that is wrong.
const base = `queue: {url: "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"}
`

// one is a profile with something in it.
func one(fields string) string {
	return base + "profiles: [{name: worker, " + fields + "}]\n"
}

// selected is a profile that is good but for fields.
func selected(fields string) string { return one("selector: [{key: k, exists: true}], " + fields) }

func TestProblems(t *testing.T) {
	t.Parallel()
	queue := func(fields string) string {
		return strings.Replace(minimal, "dynk8s\"}", "dynk8s\", "+fields+"}", 1)
	}
	url := func(u string) string {
		return strings.Replace(minimal, "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s", u, 1)
	}
	tests := []struct{ name, file, want string }{
		// YAML
		{"no YAML", "a: [", "not YAML"},
		{"tabs", "\tqueue: 1", "not YAML"},
		{"two documents", minimal + "---\n" + minimal, "more than one YAML document"},
		{"a list", "- a", "is a list: want fields and values"},
		{"a text", "hello", "is a single value: want fields and values"},
		{"unknown section", minimal + "quue: {}", "quue: unknown field: did you mean queue?"},
		{"unknown field", queue("visibilitytimeout: 60s"), "queue.visibilitytimeout: unknown field: did you mean visibilityTimeout? (line 2)"},
		{"field of another section", queue("level: info"), "queue.level: unknown field: did you mean log.level?"},
		{"field like nothing", queue("zzzzzzzzz: 1"), "queue.zzzzzzzzz: unknown field: known here: url, region, "},
		{"unknown field of a profile", one("selectr: []"), "profiles[0].selectr: unknown field: did you mean selector?"},
		{"unknown field of a condition", one("selector: [{key: k, value: [x]}]"), "profiles[0].selector[0].value: unknown field: did you mean values?"},
		{"merge key", one("<<: {}"), "profiles[0].<<: unknown field"},
		{"alias", base + "profiles: [&a {name: worker, matchAll: true}, *a]", "profiles[1]: anchors and aliases"},
		{"double section", minimal + "queue: {}", "queue: is written twice (line 4)"},
		{"double field", queue("waitTime: 1s, waitTime: 2s"), "queue.waitTime: is written twice"},
		{"double label", selected("node: {labels: {a: b, a: c}}"), "profiles[0].node.labels.a: is written twice"},
		{"mapping for a value", queue("waitTime: {a: b}"), "queue.waitTime: is a mapping: want a single value"},
		{"value for a list", selected("node: {taints: yes}"), "profiles[0].node.taints: is a single value: want a list"},
		{"text for a list", one("selector: [{key: k, values: home}]"), "profiles[0].selector[0].values: is a single value: want a list"},
		{"empty item", minimal + "artifacts: {identity: {accounts: [null]}}", "artifacts.identity.accounts[0]: is empty"},
		{"no boolean", minimal + "artifacts: {identity: {required: yes}}", `artifacts.identity.required: "yes" is neither true nor false`},
		{"no number", queue("concurrency: many"), `queue.concurrency: "many" is not a whole number`},
		{"half a number", queue("concurrency: 1.5"), "not a whole number"},
		{"no float", minimal + "kubernetes: {qps: fast}", `kubernetes.qps: "fast" is not a number`},
		{"not a number", minimal + "kubernetes: {qps: NaN}", "kubernetes.qps: is NaN: want more than 0"},
		{"duration without unit", queue("waitTime: 20"), `queue.waitTime: "20" has no unit: for seconds write 20s`},
		{"no duration", queue("waitTime: long"), `queue.waitTime: "long" is not a duration`},

		// queue and region
		{"no queue", "profiles: [{name: a, matchAll: true}]", "queue.url: is empty: want the queue's URL"},
		{"queue's name", url("dynk8s"), "queue.url: \"dynk8s\" is no https or http URL"},
		{"queue's ARN", url("arn:aws:sqs:us-east-2:123456789012:dynk8s"), "is no https or http URL: want the form"},
		{"URL without path", url("https://sqs.us-east-2.amazonaws.com/"), "names no queue"},
		{"URL with a query", url("https://sqs.us-east-2.amazonaws.com/1/q?Action=x"), "has a query"},
		{"URL without region", url("http://127.0.0.1:5000/1/q"), "aws.region: is empty and cannot be derived"},
		{"a zone", minimal + "aws: {region: us-east-2a}", `aws.region: "us-east-2a" is no AWS region`},
		{"relative folder", minimal + "aws: {credentialsDirectory: a}", `aws.credentialsDirectory: "a" is no absolute path`},
		{"another region", queue("region: eu-west-1"), "queue.region: is eu-west-1, but queue.url is in us-east-2"},
		{"visibility too short", queue("visibilityTimeout: 9s"), "queue.visibilityTimeout: is 9s: want 10s to 12h"},
		{"visibility too long", queue("visibilityTimeout: 13h"), "is 13h: want 10s to 12h"},
		{"wait too long", queue("waitTime: 21s"), "queue.waitTime: is 21s: want 1s to 20s (20s is SQS's own limit)"},
		{"no wait", queue("waitTime: 0s"), "queue.waitTime: is 0s: want 1s"},
		{"parts of seconds", queue("waitTime: 1500ms"), "queue.waitTime: is 1.5s: SQS takes whole seconds"},
		{"no concurrency", queue("concurrency: 0"), "queue.concurrency: is 0: want 1 to 1000"},

		// the rest but profiles
		{"namespace", minimal + "kubernetes: {namespace: A_b}", `kubernetes.namespace: "A_b": a lowercase RFC 1123 label`},
		{"burst", minimal + "kubernetes: {burst: -1}", "kubernetes.burst: is -1: want 1 to 10000"},
		{"interval", minimal + "reconcile: {interval: 0s}", "reconcile.interval: is 0s: want 1s to 24h"},
		{"cutoff", minimal + "reconcile: {tokenRenewalCutoff: -1s}", "reconcile.tokenRenewalCutoff: is -1s: want 0s to 720h"},
		{"grace", minimal + "reconcile: {goneGrace: 0s}", "reconcile.goneGrace: is 0s: want 1s to 24h (one missing"},
		{"address", minimal + "operations: {address: 8081}", `operations.address: "8081" is no address`},
		{"port", minimal + "artifacts: {address: ':65536'}", `artifacts.address: ":65536" is no address`},
		{"one address for both", minimal + "operations: {address: ':8080'}", "operations.address: :8080 is artifacts.address too"},
		{"half of TLS", minimal + "artifacts: {tls: {certFile: a}}", "artifacts.tls: has one of certFile and keyFile"},
		{"API version", minimal + "artifacts: {kubeadm: {apiVersion: v1beta2}}", `artifacts.kubeadm.apiVersion: is "v1beta2": want v1beta4 or v1beta3`},
		{"server", minimal + "artifacts: {kubeadm: {server: '10.0.0.1:6443'}}", "artifacts.kubeadm.server: "},
		{"discovery file", minimal + "artifacts: {kubeadm: {discoveryFile: a/b}}", "artifacts.kubeadm.discoveryFile: \"a/b\" is no absolute path"},
		{"discovery file with dots", minimal + "artifacts: {kubeadm: {discoveryFile: /a/../b}}", "is no absolute path"},
		{"account", minimal + "artifacts: {identity: {accounts: [12345678901]}}", `artifacts.identity.accounts[0]: "12345678901" is no AWS account id: want 12 digits`},
		{"empty account", minimal + "artifacts: {identity: {accounts: ['']}}", `artifacts.identity.accounts[0]: "" is no AWS account id`},
		{"identity's region", minimal + "artifacts: {identity: {regions: [europe]}}", `artifacts.identity.regions[0]: "europe" is no AWS region`},
		{"age", minimal + "artifacts: {identity: {maxAge: 1s}}", "artifacts.identity.maxAge: is 1s: want 1m to 168h"},
		{"certificates", minimal + "artifacts: {identity: {extraCertificates: [a.pem]}}", "artifacts.identity.extraCertificates[0]: \"a.pem\" is no absolute path"},
		{"certificates of a region", minimal + "artifacts: {identity: {extraCertificates: [us-east-2=a.pem]}}", "artifacts.identity.extraCertificates[0]: \"a.pem\" is no absolute path"},
		{"certificates of no region", minimal + "artifacts: {identity: {extraCertificates: [europe=/a.pem]}}", `artifacts.identity.extraCertificates[0]: "europe" is no AWS region: want REGION=PATH`},
		{"network", minimal + "artifacts: {identity: {networks: [10.0.0.1]}}", `artifacts.identity.networks[0]: "10.0.0.1" is no network: want a CIDR`},
		{"bits after the mask", minimal + "artifacts: {identity: {networks: [10.0.0.1/8]}}", `artifacts.identity.networks[0]: "10.0.0.1/8" has bits after its mask: did you mean 10.0.0.0/8?`},
		{"no rate", minimal + "artifacts: {limits: {perSource: 0}}", "artifacts.limits.perSource: is 0: want more than 0"},
		{"rate that is no number", minimal + "artifacts: {limits: {total: NaN}}", "artifacts.limits.total: is NaN: want more than 0"},
		{"no burst", minimal + "artifacts: {limits: {totalBurst: 0}}", "artifacts.limits.totalBurst: is 0: want 1 to 100000"},
		{"group of requests", minimal + "certificates: {group: 'system:nodes'}", `certificates.group: "system:nodes" is no group of bootstrap tokens`},
		{"kubeadm's group", minimal + "certificates: {approve: true, group: '" + kubeadmGroup + "'}", "certificates.group: requests of " + kubeadmGroup + " are approved automatically"},
		{"mapped network", minimal + "artifacts: {identity: {networks: ['::ffff:192.0.2.0/120']}}", `artifacts.identity.networks[0]: "::ffff:192.0.2.0/120" is IPv4 in IPv6: want 192.0.2.0/24`},
		{"taint twice over", selected("node: {taints: [{key: a, value: b, effect: NoExecute}], restrictedTaints: [{key: a, effect: NoExecute}]}"), "profiles[0].node.restrictedTaints[0]: has another value under taints"},
		{"nobody approves", selected("bootstrapToken: {extraGroups: ['system:bootstrappers:a']}") + "certificates: {approve: true}", "profiles[0].bootstrapToken.extraGroups: lacks certificates.group (system:bootstrappers:dynk8s)"},
		{"restricted label's key", selected("node: {restrictedLabels: {'a b': c}}"), `profiles[0].node.restrictedLabels[a b]: "a b" is no label key`},
		{"label twice", selected("node: {labels: {a: b}, restrictedLabels: {a: c}}"), "profiles[0].node.restrictedLabels[a]: has another value under labels"},
		{"our label restricted", selected("node: {restrictedLabels: {dynk8s.du5t1n.me/ec2-instance-id: x}}"), "is set by the program itself"},
		{"restricted taint", selected("node: {restrictedTaints: [{key: a}]}"), `profiles[0].node.restrictedTaints[0].effect: is ""`},
		{"level", minimal + "log: {level: loud}", `log.level: is "loud": want debug or info or warn or error`},
		{"format", minimal + "log: {format: xml}", `log.format: is "xml": want json or text`},

		// profiles
		{"no profiles", base, "profiles: has no entry"},
		{"profiles no list", base + "profiles: {name: a}", "profiles: is a mapping: want a list"},
		{"empty profile", base + "profiles: [null]", "profiles[0]: is empty"},
		{"no name", base + "profiles: [{matchAll: true}]", `profiles[0].name: ""`},
		{"name", base + "profiles: [{name: A, matchAll: true}]", `profiles[0].name: "A": a lowercase RFC 1123 label`},
		{"same name", base + "profiles: [{name: a, matchAll: true}, {name: a, matchAll: true}]", `profiles[1].name: "a" is the name of profiles[0] too`},
		{"no selector", one(""), "profiles[0].selector: is empty: write conditions, or matchAll: true"},
		{"selector and all", selected("matchAll: true"), "profiles[0].matchAll: is true beside a selector"},
		{"no key", one("selector: [{exists: true}]"), "profiles[0].selector[0].key: is empty"},
		{"nothing about the key", one("selector: [{key: a, exists: true}, {key: b}]"), "profiles[0].selector[1]: says nothing"},
		{"contradiction", one("selector: [{key: a, exists: true, absent: true}]"), "profiles[0].selector[0]: exists and absent contradict"},
		{"no values", one("selector: [{key: a, values: []}]"), "profiles[0].selector[0]: values is an empty list"},
		{"ttl too short", selected("bootstrapToken: {ttl: 9m}"), "profiles[0].bootstrapToken.ttl: is 9m: want 10m to 24h (less may end before"},
		{"ttl too long", selected("bootstrapToken: {ttl: 25h}"), "profiles[0].bootstrapToken.ttl: is 25h: want 10m to 24h"},
		{"group", selected("bootstrapToken: {extraGroups: ['system:masters']}"), `profiles[0].bootstrapToken.extraGroups[0]: "system:masters" is no group of bootstrap tokens`},
		{"group twice", selected("bootstrapToken: {extraGroups: ['system:bootstrappers:a', 'system:bootstrappers:a']}"), "extraGroups[1]: \"system:bootstrappers:a\" is written twice"},
		{"key selector", selected("wireguard: {keySelector: 'a in ('}"), "profiles[0].wireguard.keySelector: is no label selector"},
		{"label key", selected("node: {labels: {'a b': c}}"), `profiles[0].node.labels[a b]: "a b" is no label key`},
		{"label value", selected("node: {labels: {a: 'b,c=d'}}"), `profiles[0].node.labels[a]: "b,c=d" is no label value`},
		{"role label", selected("node: {labels: {node-role.kubernetes.io/worker: ''}}"), "profiles[0].node.labels[node-role.kubernetes.io/worker]: a kubelet may not set this label"},
		{"restricted label", selected("node: {labels: {a.node-restriction.kubernetes.io/b: c}}"), "a kubelet may not set this label"},
		{"our label", selected("node: {labels: {dynk8s.du5t1n.me/ec2-instance-id: x}}"), "is set by the program itself"},
		{"taint's key", selected("node: {taints: [{effect: NoSchedule}]}"), `profiles[0].node.taints[0]: "" is no label key`},
		{"taint's effect", selected("node: {taints: [{key: a, effect: noSchedule}]}"), `profiles[0].node.taints[0].effect: is "noSchedule": want NoSchedule or PreferNoSchedule or NoExecute`},
		{"taint twice", selected("node: {taints: [{key: a, effect: NoExecute}, {key: a, value: b, effect: NoExecute}]}"), "profiles[0].node.taints[1]: has key and effect of an earlier"},
		{"dashes", selected("node: {kubeletExtraArgs: [{name: --max-pods}]}"), `profiles[0].node.kubeletExtraArgs[0].name: "--max-pods" is no kubelet flag: want the name without leading dashes`},
		{"flag with value", selected("node: {kubeletExtraArgs: [{name: 'v=2'}]}"), "is no kubelet flag"},
		{"socket", selected("node: {criSocket: /var/run/crio/crio.sock}"), "profiles[0].node.criSocket: \"/var/run/crio/crio.sock\" is no socket's URL"},
		{"argument twice in v1beta3", selected("node: {kubeletExtraArgs: [{name: v}, {name: v}]}") + "artifacts: {kubeadm: {apiVersion: v1beta3}}", `kubeletExtraArgs[1].name: "v" is written twice`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _, err := bareSources().parse([]byte(tt.file))
			switch {
			case err == nil:
				t.Fatalf("no problem was found in\n%s", tt.file)
			case c != nil:
				t.Error("there is a Config beside the error")
			case !strings.Contains(err.Error(), tt.want):
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestReservedArguments(t *testing.T) {
	t.Parallel()
	for name, mend := range reservedArgs {
		_, _, err := testSources().parse([]byte(selected("node: {kubeletExtraArgs: [{name: " + name + "}]}")))
		want := fmt.Sprintf("profiles[0].node.kubeletExtraArgs[0].name: %s may not be set here: %s", name, mend)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestNameTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{.InstanceID}}":                        "",
		"{{.Profile}}-{{.Zone}}-{{.InstanceID}}": "",
		"{{if .PrivateDNSName}}{{.PrivateDNSName}}{{else}}{{.InstanceID}}{{end}}": "",
		`{{.InstanceType}}.{{slice .InstanceID 2}}`:                               "",
		"":                                           "gives two instances the same name",
		"worker-{{.Zone}}":                           "gives two instances the same name",
		"{{.InstanceId}}":                            "can't evaluate field InstanceId",
		"{{.InstanceID":                              "is no template",
		"{{.InstanceID}}_x":                          "a lowercase RFC 1123 subdomain",
		"{{range 1000000000000}}{{end}}":             "must not have range",
		"{{if true}}{{range 9}}x{{end}}{{end}}":      "must not have range",
		`{{define "a"}}{{end}}{{template "a"}}`:      "must not have range, template",
		"{{.InstanceID}}{{slice .InstanceID 99}}":    "cannot be carried out",
		"{{.InstanceID}}{{/* a comment is fine */}}": "",
	} {
		var p problems
		p.nameTemplate("x", text)
		err := p.err(func(string) string { return "" })
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// One look must show all that is wrong, a line each.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := testSources("DYNK8S_QUEUE_WAITTIME=soon", "DYNK8S_LOG_LEVEL=loud").parse([]byte(`
queue: {url: nowhere, concurrency: x}
aws: {region: us-east-2}
colour: blue
profiles: [{name: worker, selector: [{key: k}], node: {labels: {k8s.io/a: b}}}]
`))
	if err == nil {
		t.Fatal("nothing was found")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		"queue.concurrency: ", "colour: unknown field", "queue.waitTime: ", "queue.url: ",
		"log.level: ", "profiles[0].selector[0]: ", "profiles[0].node.labels[k8s.io/a]: ",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d does not begin with %q in\n%v", i, want, err)
		}
	}
	if len(lines) != 7 {
		t.Errorf("got more than was wrong:\n%v", err)
	}
	for _, want := range []string{"(set by DYNK8S_QUEUE_WAITTIME)", "(set by DYNK8S_LOG_LEVEL)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in\n%v", want, err)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&file, "field%d%s: 1\n", i, strings.Repeat("x", 1000))
	}
	_, _, err := testSources().parse([]byte(file.String()))
	if err == nil || len(err.Error()) > 20000 || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("%d bytes: %.500s", len(err.Error()), err)
	}
}

// A password in a URL is a mistake, but must not end in a log.
func TestPasswordIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"https://me:hunter2@sqs.us-east-2.amazonaws.com/1/q", "https://me:hunter2@[bad/1/q", "https://me:hunter2@h\x7f/"} {
		_, _, err := testSources("DYNK8S_QUEUE_URL=" + u).parse([]byte(minimal))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}
