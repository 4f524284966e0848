//go:build linux

package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryFolderOfExamplesIsTested(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob(filepath.Join(where.root, "terraform", "examples", "*"))
	if err != nil || len(found) != len(examples()) {
		t.Errorf("there are %v, %v; tested are %v", found, err, examples())
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	if out, err := tofu(t.Context(), ".", "fmt", "-check", "-diff", "-recursive"); err != nil {
		t.Errorf("tofu fmt: %v\n%s", err, out)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, dir := range append(examples(), ".") {
		if out, err := tofu(t.Context(), dir, "validate", "-no-color"); err != nil {
			t.Errorf("%s: %v\n%s", dir, err, out)
		}
	}
}

// The module's own tests: every switch. The wrong inputs are in TestRefusals.
func TestModulesOwnTests(t *testing.T) {
	t.Parallel()
	out, err := tofu(t.Context(), ".", "test", "-no-color")
	t.Log(out)
	if err != nil {
		t.Errorf("tofu test: %v", err)
	}
	if !regexp.MustCompile(`Success! [1-9][0-9]* passed, 0 failed`).MatchString(out) {
		t.Error("tofu test does not say that all passed")
	}
}

// Every switch and every number of the module appears in the module's tests.
func TestEveryInputIsTried(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(module("tests", "switches.tftest.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	tried := string(content) + planned(t, "full", inputs{"oidc_issuer": "https://oidc.example.org"}).raw
	for _, v := range variables(t) {
		// These are seen in the user data; see TestUserData.
		if !strings.Contains(tried, v.name) && !strings.Contains(userDataInputs, " "+v.name+" ") {
			t.Errorf("%s is in no test", v.name)
		}
	}
}

func tflint(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), where.tflint, "--chdir", dir, "--config", module(".tflint.hcl"), "--no-color")
	cmd.Env = append(os.Environ(), "TFLINT_PLUGIN_DIR="+where.tflintPlugins)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTflint(t *testing.T) {
	t.Parallel()
	for _, dir := range append(examples(), ".", "modules/identity") {
		if out, err := tflint(t, module(dir)); err != nil {
			t.Errorf("%s: %v\n%s", dir, err, out)
		}
	}
}

// The rules for AWS are at work: they find a type that EC2 does not have.
func TestTflintKnowsAWS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wrong := "resource \"aws_instance\" \"this\" {\n  ami           = \"ami-0123456789abcdef0\"\n  instance_type = \"t9.enormous\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := tflint(t, dir); err == nil || !strings.Contains(out, "aws_instance_invalid_type") {
		t.Errorf("it was not found: %v\n%s", err, out)
	}
}

// Partitions differ: no ARN of the module says aws itself.
func TestNoPartitionIsWrittenDown(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(module("*.tf"))
	nested, err2 := filepath.Glob(module("modules", "*", "*.tf"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, file := range append(files, nested...) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			// Messages have examples, patterns take any partition.
			if strings.Contains(line, "arn:aws") && !strings.Contains(line, "error_message") && !strings.Contains(line, "arn:aws[a-z-]*") {
				t.Errorf("%s: %s", filepath.Base(file), line)
			}
		}
	}
}
