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
	if !strings.HasPrefix(errs, "warning: artifacts.identity.required:") {
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

func TestRunRefusesToAskForIdentity(t *testing.T) {
	byDefault := writeFile(t, "c.yaml", minimal)
	off := writeFile(t, "off.yaml", minimal+"artifacts: {identity: {required: false}}\n")
	for name, args := range map[string][]string{
		"by default": {"run", "-c", byDefault},
		"by flag":    {"run", "-c", off, "--identity-required"},
	} {
		_, _, err := call(t, args...)
		if err == nil || !strings.Contains(err.Error(), "artifacts.identity.required: true is not supported") ||
			!strings.Contains(err.Error(), "set it to false") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHelpNamesTheCommands(t *testing.T) {
	out, _, err := call(t, "--help")
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"run", "check", "version"} {
		if !regexp.MustCompile(`(?m)^  ` + want + ` `).MatchString(out) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}
