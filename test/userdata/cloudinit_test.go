//go:build linux

package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// mostUserData is what EC2 takes, before base64.
const mostUserData = 16 << 10

// variants are the values that decide what the template renders, each over the
// plain ones.
var variants = map[string]map[string]any{
	"plain":           {},
	"pinned CA":       {"ca_certificate": chain(1)},
	"a chain of CAs":  {"ca_certificate": chain(3)},
	"automatic":       {"dnf_automatic": true},
	"user namespaces": {"user_namespaces": true},
	"commands":        {"extra_commands": []string{"echo one", "echo two"}},
	"odd commands": {"extra_commands": []string{
		"- a: [b] # c", "%{ if true }${endpoint}%{ endif }", "printf '%s\\n' \"$HOME\" \\\n  'second line: |'", "{{ ds.meta_data }}", "ü\t\"'`!&*",
	}},
	"odd settings": {"endpoint": "https://[2001:db8::1]:8443", "interface": "wg=+.-_0", "wait_seconds": 86400},
	"all": {
		"ca_certificate": chain(2), "dnf_automatic": true, "user_namespaces": true, "extra_commands": []string{"echo one"},
		"kubernetes_version": "1.35",
	},
}

// chain returns certificates as PEM; they need not be any.
func chain(n int) string {
	_, ca, err := certificate()
	if err != nil {
		panic(err)
	}
	return strings.Repeat(ca, n)
}

// cloudConfig is what the rendered template must be.
type cloudConfig struct {
	WriteFiles []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	} `json:"write_files"`
	RunCmd []any `json:"runcmd"`
}

func TestCloudInit(t *testing.T) {
	t.Parallel()
	need(t, "cloud-init")
	dir, _ := scripts(t)
	tofu, err := parts.Tofu(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := variables(t, dir, variants[name])
			rendered := render(t, tofu, dir, values)
			file := filepath.Join(t.TempDir(), "user-data")
			if err := os.WriteFile(file, rendered, 0o600); err != nil {
				t.Fatal(err)
			}
			out := output(t, "cloud-init", "schema", "--config-file", file)
			if !strings.Contains(out, "Valid") {
				t.Errorf("cloud-init: %s", out)
			}
			var config cloudConfig
			if err := yaml.UnmarshalStrict(rendered, &config); err != nil {
				t.Fatal(err)
			}
			checkFiles(t, config, values)
			checkCommands(t, config, values)
			checkSize(t, rendered)
		})
	}
}

// variables are what the Terraform module gives to the template.
func variables(t *testing.T, dir string, over map[string]any) map[string]any {
	t.Helper()
	files := map[string]string{}
	for key, name := range map[string]string{"join": "dynk8s-join", "node_setup": "dynk8s-node-setup", "join_service": "dynk8s-join.service"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[key] = string(content)
	}
	values := map[string]any{
		"endpoint": "https://provisioner.example.org:8080", "ca_certificate": "", "interface": "dynk8s", "wait_seconds": 1800,
		"kubernetes_version": "1.34", "dnf_automatic": false, "user_namespaces": false, "extra_commands": []string{}, "files": files,
	}
	maps.Copy(values, over)
	return values
}

// render renders the template by OpenTofu itself.
func render(t *testing.T, tofu, dir string, values map[string]any) []byte {
	t.Helper()
	work := t.TempDir()
	data, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(work, "cli.tfrc") // must be there
	if err := errors.Join(os.WriteFile(settings, nil, 0o600), os.WriteFile(filepath.Join(work, "values.json"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tofu, "console")
	cmd.Dir, cmd.Env = work, append(os.Environ(), "TF_CLI_CONFIG_FILE="+settings)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("base64encode(templatefile(%q, jsondecode(file(\"values.json\"))))\n",
		filepath.Join(dir, "cloud-init.yaml.tftpl")))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tofu console: %v\n%s", err, stderr.String())
	}
	var rendered []byte // base64 in quotes is how JSON has bytes
	if err := json.Unmarshal(out, &rendered); err != nil {
		t.Fatalf("tofu console: %v: %.200s", err, out)
	}
	return rendered
}

// checkFiles: each file is there byte for byte, and the settings are what the
// scripts read.
func checkFiles(t *testing.T, config cloudConfig, values map[string]any) {
	t.Helper()
	yes := func(key string) string {
		if values[key].(bool) {
			return "yes"
		}
		return "no"
	}
	ca := values["ca_certificate"].(string)
	join := fmt.Sprintf("DYNK8S_ENDPOINT=%s\nDYNK8S_INTERFACE=%s\nDYNK8S_WAIT=%d\n", values["endpoint"], values["interface"], values["wait_seconds"])
	files := values["files"].(map[string]string)
	want := map[string]string{
		"/usr/local/sbin/dynk8s-join 0755":             files["join"],
		"/usr/local/sbin/dynk8s-node-setup 0755":       files["node_setup"],
		"/etc/systemd/system/dynk8s-join.service 0644": files["join_service"],
		"/etc/dynk8s/node.env 0644": fmt.Sprintf("DYNK8S_KUBERNETES_VERSION=%s\nDYNK8S_DNF_AUTOMATIC=%s\nDYNK8S_USER_NAMESPACES=%s\n",
			values["kubernetes_version"], yes("dnf_automatic"), yes("user_namespaces")),
	}
	if ca != "" {
		want["/etc/dynk8s/endpoint-ca.pem 0644"] = ca
		join = strings.Replace(join, "\n", "\nDYNK8S_CA_FILE=/etc/dynk8s/endpoint-ca.pem\n", 1)
	}
	want["/etc/dynk8s/join.env 0644"] = join
	got := map[string]string{}
	for _, f := range config.WriteFiles {
		got[f.Path+" "+f.Permissions] = f.Content
	}
	if !maps.Equal(got, want) {
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s is\n%q\nwant\n%q", name, got[name], want[name])
			}
		}
		t.Errorf("got files %q", slices.Sorted(maps.Keys(got)))
	}
}

// checkCommands: the unit is enabled before and started after the commands of
// the operator, which are as they were written.
func checkCommands(t *testing.T, config cloudConfig, values map[string]any) {
	t.Helper()
	want := []any{[]any{"systemctl", "daemon-reload"}, []any{"systemctl", "enable", "dynk8s-join.service"}}
	for _, command := range values["extra_commands"].([]string) {
		want = append(want, command)
	}
	want = append(want, []any{"systemctl", "start", "--no-block", "dynk8s-join.service"})
	if got := config.RunCmd; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got commands %q, want %q", got, want)
	}
}

func checkSize(t *testing.T, rendered []byte) {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(rendered); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() >= mostUserData {
		t.Errorf("%d bytes after gzip, EC2 takes %d", out.Len(), mostUserData)
	}
	t.Logf("%d bytes, %d after gzip", len(rendered), out.Len())
}

// The schema check can fail: cloud-init is not content with anything.
func TestCloudInitRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	need(t, "cloud-init")
	file := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(file, []byte("#cloud-config\nwrite_files:\n  - {permissions: 755}\nruncmd: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "cloud-init", "schema", "--config-file", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "runcmd") {
		t.Errorf("got %v: %s", err, out)
	}
}

// systemd understands the unit, and finds nothing wrong in it.
func TestUnit(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	dir, _ := scripts(t)
	work := t.TempDir()
	unit, err := os.ReadFile(filepath.Join(dir, "dynk8s-join.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The programs must exist where it is verified.
	text := strings.ReplaceAll(string(unit), "/usr/local/sbin/", dir+"/")
	file := filepath.Join(work, "dynk8s-join.service")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := output(t, "systemd-analyze", "verify", "--man=no", file); out != "" {
		t.Errorf("systemd-analyze: %s", out)
	}
	for _, line := range []string{
		"Restart=on-failure", "RestartPreventExitStatus=2 3", "StartLimitIntervalSec=0", "RemainAfterExit=yes",
		"EnvironmentFile=/etc/dynk8s/join.env", "UMask=0077", "WantedBy=multi-user.target",
	} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}
