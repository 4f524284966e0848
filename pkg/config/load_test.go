package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// minimal is the least that is valid, in a pod.
const minimal = `
queue: {url: "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"}
profiles: [{name: worker, selector: [{key: cluster, values: [home]}]}]
`

// What would be warned of in each test else.
const (
	behindProxy = "DYNK8S_ARTIFACTS_TRUSTEDPROXIES=10.0.0.0/8"
	ownAccount  = "DYNK8S_ARTIFACTS_IDENTITY_ACCOUNTS=123456789012"
)

// bareSources are for files that say more than testSources does.
func bareSources() sources { return sources{environ: inPod, namespaceFile: "testdata/missing"} }

// testSources makes parse independent of where the test runs.
func testSources(environ ...string) sources {
	return sources{environ: slices.Concat([]string{behindProxy, ownAccount}, environ, inPod), namespaceFile: "testdata/missing"}
}

func mustParse(t *testing.T, s sources, file string) (*Config, []string) {
	t.Helper()
	c, warnings, err := s.parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c, warnings
}

func TestMinimal(t *testing.T) {
	t.Parallel()
	c, warnings := mustParse(t, testSources(), minimal)
	if len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	want := Defaults()
	want.Queue.URL = "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"
	want.Artifacts.TrustedProxies = []string{"10.0.0.0/8"}
	want.Artifacts.Identity.Accounts = []string{"123456789012"}
	want.Queue.Region, want.AWS.Region, want.Kubernetes.Namespace = "us-east-2", "us-east-2", "dynk8s"
	profile := profileDefaults()
	profile.Name, profile.Selector = "worker", []Condition{{Key: "cluster", Values: []string{"home"}}}
	want.Profiles = []Profile{profile}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const inFile = minimal + "log: {level: warn}\n"
	tests := []struct {
		name, file, want string
		environ, args    []string
	}{
		{"default", minimal, "info", nil, nil},
		{"file over default", inFile, "warn", nil, nil},
		{"environment over file", inFile, "error", []string{"DYNK8S_LOG_LEVEL=error"}, nil},
		{"environment over default", minimal, "error", []string{"DYNK8S_LOG_LEVEL=error"}, nil},
		{"empty variable is none", inFile, "warn", []string{"DYNK8S_LOG_LEVEL="}, nil},
		{"flag over environment", inFile, "debug", []string{"DYNK8S_LOG_LEVEL=error"}, []string{"--log-level=debug"}},
		{"flag over file", inFile, "debug", nil, []string{"--log-level=debug"}},
		{"flag with the default's value", inFile, "info", nil, []string{"--log-level=info"}},
		{"null in the file is nothing", minimal + "log: {level: null}", "info", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := testSources(tt.environ...)
			s.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
			AddFlags(s.flags)
			if err := s.flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if c, _ := mustParse(t, s, tt.file); c.Log.Level != tt.want {
				t.Errorf("log.level is %s, want %s", c.Log.Level, tt.want)
			}
		})
	}
}

// Every flag must reach its own field, and so must every variable.
func TestEveryFlagAndVariable(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"aws.region": "eu-west-1", "aws.credentialsDirectory": "/c", "queue.url": "http://127.0.0.1:5000/1/q", "queue.region": "eu-west-1",
		"queue.visibilityTimeout": "2m0s", "queue.waitTime": "3s", "queue.concurrency": "7",
		"kubernetes.kubeconfig": "/k", "kubernetes.namespace": "elsewhere", "kubernetes.qps": "1.5", "kubernetes.burst": "3",
		"reconcile.interval": "7m0s", "reconcile.tokenRenewalCutoff": "7h0m0s", "reconcile.goneGrace": "8m0s",
		"artifacts.address": "127.0.0.1:1", "artifacts.tls.certFile": "c", "artifacts.tls.keyFile": "k",
		"artifacts.trustedProxies": "192.0.2.0/24,10.0.0.0/8", "artifacts.limits.perSource": "1.5", "artifacts.limits.perSourceBurst": "3",
		"artifacts.limits.total": "2.5", "artifacts.limits.totalBurst": "4", "artifacts.identity.publicAddress": "true",
		"artifacts.identity.networks": "192.0.2.0/24", "certificates.approve": "true",
		"certificates.group": "system:bootstrappers:x", "operations.pprof": "true",
		"artifacts.kubeadm.apiVersion": "v1beta3", "artifacts.kubeadm.server": "https://10.0.0.1:6443",
		"artifacts.kubeadm.tokenInKubeconfig": "true", "artifacts.kubeadm.discoveryFile": "/d",
		"artifacts.identity.required": "false", "artifacts.identity.accounts": "012345678901, 123456789012",
		"artifacts.identity.regions": "us-east-1,us-gov-west-1", "artifacts.identity.maxAge": "2h0m0s",
		"artifacts.identity.extraCertificates": "/e", "operations.address": "127.0.0.1:2",
		"log.level": "debug", "log.format": "text",
	}
	want := Defaults()
	var environ []string
	for _, s := range settings {
		text, ok := texts[s.path]
		if !ok {
			t.Fatalf("the test does not know %s", s.path)
		}
		if err := setText(s.in(want), text); err != nil {
			t.Fatal(err)
		}
		environ = append(environ, s.env()+"="+text)
	}
	// What is asked for is what nothing else would give.
	c, _ := mustParse(t, testSources(environ...), minimal)
	want.Profiles = c.Profiles
	if !reflect.DeepEqual(c, want) {
		t.Errorf("by environment\ngot  %+v\nwant %+v", c, want)
	}
	for _, f := range append([]flag{identityFlag}, textFlags...) {
		s := testSources()
		s.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		AddFlags(s.flags)
		if err := s.flags.Set(f.name, texts[f.path]); err != nil {
			t.Fatal(err)
		}
		file := minimal
		if f.path == "queue.url" {
			file += "aws: {region: eu-west-1}\n" // the stand-in's URL has none
		}
		c, _ := mustParse(t, s, file)
		if at := settingAt(f.path); !reflect.DeepEqual(at.in(c).Interface(), at.in(want).Interface()) {
			t.Errorf("--%s: %s is %v", f.name, f.path, at.in(c))
		}
	}
}

func TestTextsStayAsWritten(t *testing.T) {
	t.Parallel()
	c, _ := mustParse(t, bareSources(), `
queue: {url: "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"}
artifacts: {identity: {accounts: [012345678901, 123456789012]}}
profiles:
- name: "1"
  selector: [{key: Some/Key.With Dots, values: [1.10, yes, 0x1F, 010]}]
  node:
    labels: {example.com/Foo: 1.10, example.com/foo: true, UPPER: No}
    kubeletExtraArgs: [{name: max-pods, value: 50}, {name: v, value: true}]
`)
	if got := strings.Join(c.Artifacts.Identity.Accounts, " "); got != "012345678901 123456789012" {
		t.Errorf("accounts are %s", got)
	}
	p := c.Profiles[0]
	want := []Condition{{Key: "Some/Key.With Dots", Values: []string{"1.10", "yes", "0x1F", "010"}}}
	if !reflect.DeepEqual(p.Selector, want) {
		t.Errorf("selector is %+v", p.Selector)
	}
	labels := map[string]string{"example.com/Foo": "1.10", "example.com/foo": "true", "UPPER": "No"}
	if !reflect.DeepEqual(p.Node.Labels, labels) {
		t.Errorf("labels are %v", p.Node.Labels)
	}
	if args := []Arg{{"max-pods", "50"}, {"v", "true"}}; !reflect.DeepEqual(p.Node.KubeletExtraArgs, args) {
		t.Errorf("arguments are %v", p.Node.KubeletExtraArgs)
	}
}

func TestProfileDefaults(t *testing.T) {
	t.Parallel()
	c, _ := mustParse(t, testSources(), `
queue: {url: "https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s"}
profiles:
- {name: a, selector: [{key: k, exists: true}], bootstrapToken: {ttl: 2h, extraGroups: []}}
- {name: b, selector: [{key: k, exists: true}], bootstrapToken: {signing: true}}
- {name: c, matchAll: true, bootstrapToken: null, node: {criSocket: unix:///run/containerd/containerd.sock}}
`)
	if a := c.Profiles[0].BootstrapToken; a.TTL != 2*time.Hour || len(a.ExtraGroups) != 0 {
		t.Errorf("a: %+v: an empty list means none", a)
	}
	if b := c.Profiles[1].BootstrapToken; b.TTL != time.Hour || b.ExtraGroups != nil || !b.Signing {
		t.Errorf("b: %+v: what is left out has its default", b)
	}
	if got := c.TokenGroups(c.Profiles[0]); len(got) != 0 {
		t.Errorf("a's groups: %v", got)
	}
	if got := c.TokenGroups(c.Profiles[1]); !slices.Equal(got, []string{kubeadmGroup}) {
		t.Errorf("b's groups: %v", got)
	}
	c.Certificates.Approve = true
	if got := c.TokenGroups(c.Profiles[1]); !slices.Equal(got, []string{"system:bootstrappers:dynk8s"}) {
		t.Errorf("b's groups with approval: %v", got)
	}
	if n := c.Profiles[2].Node; n.NameTemplate != "{{.InstanceID}}" || n.CRISocket != "unix:///run/containerd/containerd.sock" {
		t.Errorf("c: %+v", n)
	}
	for i, all := range []bool{false, false, true} {
		if s, err := c.Profiles[i].InstanceSelector(); err != nil || s.MatchesAll() != all {
			t.Errorf("profiles[%d]: matches all is %v (%v)", i, s.MatchesAll(), err)
		}
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo") // to open it would wait for ever
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxFileSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		large:              "larger than",
		"":                 "no configuration file is named",
		"testdata/missing": "no such file",
		"/dev/zero":        "is no regular file",
		t.TempDir():        "is no regular file",
		fifo:               "is no regular file",
	} {
		if _, _, err := Load(path, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", path, err, want)
		}
	}
}
