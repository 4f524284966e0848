//go:build linux

// Package chart tests what the Helm chart renders and refuses. What the rendered
// does on a real API server is tested in package system.
package chart

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// where are the program helm and the chart.
var where struct{ helm, root, chart string }

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if where.helm, err = parts.Helm(context.Background(), os.Stderr); err == nil {
		where.root, err = parts.Root()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart tests:", err)
		os.Exit(1)
	}
	where.chart = filepath.Join(where.root, "charts", "dynk8s-provisioner")
	os.Exit(m.Run())
}

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runHelm(t, where.helm, args...)
}

func runHelm(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// render renders with the minimal values and what is given over them.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, slices.Concat([]string{"template", "dynk8s", where.chart, "--namespace", "dynk8s-system", "--kube-version", "1.37.2",
		"-f", filepath.Join(where.chart, "ci", "minimal-values.yaml")}, args)...)
}

// write puts values into a file.
func write(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func ciValues(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(where.chart, "ci", "*-values.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	return files
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, file := range ciValues(t) {
		if _, err := helm(t, "lint", "--strict", where.chart, "-f", file); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}

// documents are the rendered objects by kind, namespace and name, each as text.
func documents(rendered string) map[string]string {
	found := map[string]string{}
	for _, document := range strings.Split("\n"+rendered, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		// The dashboard is long, and tested against a daemon's metrics.
		if yaml.Unmarshal([]byte(document), &object) == nil && object.Kind != "" && !strings.HasSuffix(object.Metadata.Name, "-dashboard") {
			found[object.Kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name] = strings.TrimSpace(document)
		}
	}
	return found
}

// switches are values that change what is rendered.
var switches = map[string]string{
	"credentials-secret":  "aws: {credentials: {secret: {name: aws}}}",
	"tls-secret":          "tls: {secretName: artifacts-tls}",
	"certificate":         "certificate: {enabled: true, dnsNames: [join.example.org], issuerRef: {name: letsencrypt, kind: ClusterIssuer}}",
	"approve":             "config: {certificates: {approve: true}}",
	"approve-own-group":   "config: {certificates: {approve: true, group: 'system:bootstrappers:edge'}}",
	"no-rbac":             "rbac: {create: false}\nserviceAccount: {create: false, name: mine}",
	"no-network-policy":   "networkPolicy: {enabled: false}",
	"load-balancer":       "service: {artifacts: {type: LoadBalancer}}\ntls: {secretName: artifacts-tls}",
	"recreate":            "strategy: {type: Recreate}",
	"one-replica":         "replicaCount: 1\npodDisruptionBudget: {enabled: false}",
	"digest":              "image: {digest: 'sha256:" + strings.Repeat("a", 64) + "'}",
	"proxy-and-fips":      "proxy: {https: 'http://proxy.example.org:3128'}\naws: {fips: true}",
	"monitoring":          "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
	"no-tests":            "tests: {enabled: false}",
	"identity-not-needed": "config: {artifacts: {identity: {required: false}}}",
	"restricted-labels":   "config: {profiles: [{name: worker, matchAll: true, node: {restrictedLabels: {node-role.kubernetes.io/burst: ''}}}]}",
}

// A switch changes the objects that it is about, and no others.
func TestGolden(t *testing.T) {
	t.Parallel()
	plain, err := render(t)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "minimal", plain)
	before := documents(plain)
	for name, values := range switches {
		rendered, err := render(t, "-f", write(t, values))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden(t, name, changed(before, documents(rendered)))
	}
	for _, file := range ciValues(t) {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		if name == "minimal" {
			continue
		}
		rendered, err := helm(t, "template", "dynk8s", where.chart, "--namespace", "dynk8s-system", "--kube-version", "1.37.2", "-f", file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden(t, name, changed(before, documents(rendered)))
	}
}

// changed are the documents that are not as before, and the names of those that
// are gone.
func changed(before, now map[string]string) string {
	var out strings.Builder
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	for _, name := range slices.Sorted(keysOf(names)) {
		switch document, there := now[name]; {
		case !there:
			fmt.Fprintf(&out, "# gone: %s\n", name)
		case document != before[name]:
			fmt.Fprintf(&out, "---\n%s\n", document)
		}
	}
	return out.String()
}

func keysOf(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	if got != string(want) {
		t.Errorf("%s is rendered differently; if that is meant: go test ./chart -update\n%s", name, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}

// What an operator may get wrong is refused with a word about what to write.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const queue = "config: {queue: {url: 'https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s'}, "
	const profile = "profiles: [{name: worker, matchAll: true}]"
	for name, tt := range map[string]struct{ values, want string }{
		"no queue":                {"config: {" + profile + "}", "queue.url"},
		"no profile":              {queue + "profiles: []}", "profiles"},
		"selector without a key":  {queue + "profiles: [{name: a, selector: [{values: [x]}]}]}", "key"},
		"selector and matchAll":   {queue + "profiles: [{name: a, matchAll: true, selector: [{key: k, exists: true}]}]}", "matchAll"},
		"neither":                 {queue + "profiles: [{name: a}]}", "matchAll"},
		"unknown value":           {queue + profile + "}\nreplicas: 3", "replicas"},
		"unknown setting":         {queue + profile + ", speed: 1}", "speed"},
		"number as an account id": {queue + profile + ", artifacts: {identity: {accounts: [123456789012]}}}", "string"},
		"short account id":        {queue + profile + ", artifacts: {identity: {accounts: ['1234']}}}", "accounts"},
		"both credentials":        {queue + profile + "}\naws: {credentials: {secret: {name: a}, file: {secretName: b}}}", "credentials"},
		"keys in plain values":    {queue + profile + "}\nextraEnv: [{name: AWS_SECRET_ACCESS_KEY, value: hush}]", "AWS_SECRET_ACCESS_KEY"},
		"keys by an older name":   {queue + profile + "}\nextraEnv: [{name: AWS_SECRET_KEY, value: hush}]", "AWS_SECRET_KEY with a plain value"},
		"keys of two kinds": {
			queue + profile + "}\naws: {credentials: {file: {secretName: b}}}\nextraEnv: [{name: AWS_ACCESS_KEY_ID, valueFrom: {secretKeyRef: {name: a, key: b}}}]",
			"extraEnv has AWS_ACCESS_KEY_ID beside aws.credentials.file",
		},
		"the same variable twice": {queue + profile + "}\nextraEnv: [{name: A, value: b}, {name: A, value: c}]", "extraEnv has A twice"},
		"key size of another algorithm": {
			queue + profile + "}\ncertificate: {enabled: true, dnsNames: [a.example.org], issuerRef: {name: a}, privateKey: {algorithm: RSA}}",
			"certificate.privateKey.size is 256",
		},
		"no such port":           {queue + profile + ", artifacts: {address: ':65536'}}", "address"},
		"age past the histogram": {queue + profile + "}\nmetrics: {prometheusRule: {thresholds: {messageAgeSeconds: 3600}}}", "messageAgeSeconds"},
		"group approved by kubeadm": {
			queue + profile + ", certificates: {group: 'system:bootstrappers:kubeadm:default-node-token'}}", "config.certificates.group",
		},
		"tokens that nobody approves": {
			queue + "profiles: [{name: a, matchAll: true, bootstrapToken: {extraGroups: ['system:bootstrappers:a']}}]}", "extraGroups lacks",
		},
		"unknown switch": {queue + profile + "}\nnetworkPolicy: {enabled: 'yes'}", "networkPolicy"},
	} {
		_, err := helm(t, "template", "dynk8s", where.chart, "-f", write(t, tt.values))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// The daemon itself is content with every configuration that is rendered.
func TestRenderedConfigurationIsValid(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "dynk8s-provisioner")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", where.root, "-o", program, "./cmd/dynk8s-provisioner")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range ciValues(t) {
		rendered, err := helm(t, "template", "dynk8s", where.chart, "-f", file, "--show-only", "templates/configmap.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var stored struct{ Data map[string]string }
		if err := yaml.Unmarshal([]byte(rendered), &stored); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(config, []byte(withoutCertificates(stored.Data["config.yaml"])), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "check", "--config", config).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
}

// withoutCertificates leaves out files that only the pod has.
func withoutCertificates(config string) string {
	var c map[string]any
	if yaml.Unmarshal([]byte(config), &c) != nil {
		return config
	}
	if artifacts, ok := c["artifacts"].(map[string]any); ok {
		if identity, ok := artifacts["identity"].(map[string]any); ok {
			delete(identity, "extraCertificates")
		}
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		return config
	}
	return string(out)
}
