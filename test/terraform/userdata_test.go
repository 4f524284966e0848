//go:build linux

package terraform

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// userDataInputs are those that end in the user data.
const userDataInputs = " endpoint endpoint_ca_certificate wireguard_interface wait_seconds kubernetes_version dnf_automatic user_namespaces extra_commands "

// cloudConfig is what cloud-init reads of the user data.
type cloudConfig struct {
	WriteFiles []struct{ Path, Content, Permissions string } `json:"write_files"`
	RunCmd     []any                                         `json:"runcmd"`
}

// What instances get holds every input, whatever it has in it, and fits.
func TestUserData(t *testing.T) {
	t.Parallel()
	nasty := "printf '%s\\n' \"a: b\" # ${x} %{ if } {{ }}\n--- |"
	p := plannedModule(t, stack.Region, inputs{
		"endpoint": "https://join.example.org:8443", "endpoint_ca_certificate": somePEM, "wireguard_interface": "vpn0", "wait_seconds": 900,
		"kubernetes_version": "1.35", "dnf_automatic": true, "user_namespaces": true, "extra_commands": []string{nasty},
	})
	config := userData(t, p.get(t, `aws_launch_template.nodes["burst"]`)["user_data"].(string))
	files := map[string]string{}
	for _, f := range config.WriteFiles {
		files[f.Path] = f.Content
	}
	for path, wants := range map[string][]string{
		"/etc/dynk8s/join.env": {"DYNK8S_ENDPOINT=https://join.example.org:8443\n", "DYNK8S_INTERFACE=vpn0\n", "DYNK8S_WAIT=900\n", "DYNK8S_CA_FILE="},
		"/etc/dynk8s/node.env": {"DYNK8S_KUBERNETES_VERSION=1.35\n", "DYNK8S_DNF_AUTOMATIC=yes\n", "DYNK8S_USER_NAMESPACES=yes\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(files[path], want) {
				t.Errorf("%s has no %q: %s", path, want, files[path])
			}
		}
	}
	for path, source := range map[string]string{
		"/usr/local/sbin/dynk8s-join": "dynk8s-join", "/usr/local/sbin/dynk8s-node-setup": "dynk8s-node-setup",
		"/etc/systemd/system/dynk8s-join.service": "dynk8s-join.service",
	} {
		want, err := os.ReadFile(filepath.Join(where.root, "userdata", source))
		if err != nil || files[path] != string(want) {
			t.Errorf("%s is not %s byte for byte: %v", path, source, err)
		}
	}
	found := false
	for _, command := range config.RunCmd {
		found = found || command == nasty
	}
	if !found {
		t.Errorf("the command is not there as it was written: %q", config.RunCmd)
	}
}

// userData decodes it as EC2 and cloud-init would.
func userData(t *testing.T, encoded string) cloudConfig {
	t.Helper()
	compressed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if len(compressed) > 16<<10 {
		t.Errorf("it has %d bytes, and EC2 takes 16 KiB", len(compressed))
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(content, []byte("#cloud-config\n")) {
		t.Errorf("it begins with %.40q", content)
	}
	var config cloudConfig
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		t.Fatal(err)
	}
	return config
}
