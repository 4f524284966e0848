package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const exampleFile = "../../config.example.yaml"

// call runs the program with arguments, in an environment without settings.
func call(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "DYNK8S_") || strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("POD_NAMESPACE", "dynk8s")
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersion(t *testing.T) {
	out, _, err := call(t, "version")
	if err != nil || !regexp.MustCompile(`^dynk8s-provisioner \S+ \(go1\.\S+ \w+/\w+\)\n$`).MatchString(out) {
		t.Errorf("%q, %v", out, err)
	}
	version = "v1.2.3"
	t.Cleanup(func() { version = "" })
	if out, _, _ = call(t, "version"); !strings.HasPrefix(out, "dynk8s-provisioner v1.2.3 ") {
		t.Errorf("%q", out)
	}
}

func TestCheckOfAValidFile(t *testing.T) {
	out, errs, err := call(t, "check", "--config", exampleFile)
	if err != nil || out != "profile 1: worker (4 conditions on tags)\nconfiguration is valid\n" {
		t.Errorf("%q, %v", out, err)
	}
	if errs != "" {
		t.Errorf("warnings %q", errs)
	}
}

const minimal = `
queue: {url: https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s}
profiles: [{name: all, matchAll: true}]
`

func TestCheckOfMatchAll(t *testing.T) {
	out, _, err := call(t, "check", "-c", writeFile(t, "c.yaml", minimal))
	if err != nil || !strings.Contains(out, "profile 1: all (every instance)\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestWrongCalls(t *testing.T) {
	valid := writeFile(t, "valid.yaml", minimal)
	for name, tc := range map[string]struct {
		args []string
		want []string // in the error
	}{
		"no configuration":          {[]string{"check"}, []string{"config"}},
		"missing file":              {[]string{"check", "-c", "/nonexistent"}, []string{"/nonexistent"}},
		"wrong fields, all told":    {[]string{"check", "-c", writeFile(t, "c.yaml", "queue: {url: x, speed: 1}\nprofiles: []\n")}, []string{"queue.url", "queue.speed", "profiles"}},
		"no YAML":                   {[]string{"check", "-c", writeFile(t, "c.yaml", "{")}, []string{"c.yaml"}},
		"profile without selector":  {[]string{"check", "-c", writeFile(t, "c.yaml", strings.Replace(minimal, ", matchAll: true", "", 1))}, []string{"profiles[0]", "matchAll"}},
		"unknown flag":              {[]string{"run", "-c", valid, "--speed", "1"}, []string{"--speed"}},
		"unknown flag of check":     {[]string{"check", "-c", valid, "--speed", "1"}, []string{"--speed"}},
		"wrong flag":                {[]string{"check", "-c", valid, "--log-level", "loud"}, []string{"--log-level", "debug"}},
		"superfluous argument":      {[]string{"run", "-c", valid, "now"}, []string{"now"}},
		"reissue for nobody":        {[]string{"reissue", "-c", valid}, []string{"accepts 1 arg"}},
		"reissue for no instance":   {[]string{"reissue", "-c", valid, "worker-1"}, []string{"worker-1", "is no EC2 instance id"}},
		"unknown command":           {[]string{"walk"}, []string{"walk"}},
		"run without configuration": {[]string{"run"}, []string{"config"}},
		"run with a wrong one":      {[]string{"run", "-c", writeFile(t, "c.yaml", "profiles: []")}, []string{"profiles"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := call(t, tc.args...)
			if err == nil {
				t.Fatalf("no error, %q", out)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if strings.Contains(out, "valid") || strings.Contains(out, "Usage") {
				t.Errorf("output %q", out)
			}
		})
	}
}

// What is wrong with the certificates of those who sign identity documents is
// said at the start.
func TestRunNamesBadCertificates(t *testing.T) {
	kubeconfig := writeFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: a, context: {cluster: a}}]}`)
	for file, want := range map[string]string{
		"/dev/zero":                              "no regular file",
		t.TempDir():                              "no regular file",
		"/nonexistent.pem":                       "no such file",
		writeFile(t, "a.pem", "nothing"):         "PEM",
		"us-east-2=" + writeFile(t, "b.pem", ""): "PEM",
	} {
		_, _, err := call(t, "run", "-c", writeFile(t, "c.yaml", minimal+"kubernetes: {kubeconfig: "+kubeconfig+"}\n"+
			"artifacts: {address: \"127.0.0.1:0\", identity: {extraCertificates: ["+file+"]}}\noperations: {address: \"127.0.0.1:0\"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", file, err, want)
		}
		_, _, err = call(t, "check", "-c", writeFile(t, "c.yaml", minimal+"artifacts: {identity: {extraCertificates: ["+file+"]}}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("check of %s: got %v, want %s", file, err, want)
		}
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	out, _, err := call(t, "--help")
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"run", "check", "reissue", "probe", "version"} {
		if !regexp.MustCompile(`(?m)^  ` + want + ` `).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}
