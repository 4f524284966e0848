//go:build linux

package terraform

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// The chart takes the output as it is, for each kind of credentials and in each
// partition.
func TestHelmValues(t *testing.T) {
	t.Parallel()
	helm, err := parts.Helm(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for kind, in := range map[string]inputs{
		"user": {},
		"oidc": {"oidc": inputs{"issuer": "https://oidc.example.org"}},
		"roles_anywhere": {
			"roles_anywhere": inputs{"ca_certificate": somePEM}, "helm_secret_name": "roles-anywhere",
		},
	} {
		for partition, place := range partitions {
			t.Run(kind+" in "+partition, func(t *testing.T) {
				t.Parallel()
				p := plannedModule(t, place.region, in.with(inputs{
					"daemon_credentials": kind, "ami_owner": "self",
					"groups": one(inputs{
						"labels": inputs{"example.org/a": "b"}, "restricted_labels": inputs{"node-role.kubernetes.io/burst": ""},
						"taints":            []inputs{{"key": "example.org/c", "value": "d", "effect": "NoSchedule"}},
						"restricted_taints": []inputs{taint("example.org/e", "NoExecute")}, "key_selector": "site=home",
					}),
				}))
				rendered := render(t, helm, p.outputs["helm_values"])
				for _, want := range []string{
					"https://sqs." + place.region + "." + place.suffix + "/000000000000/dynk8s",
					"example.org/c", "node-role.kubernetes.io/burst", "site=home", map[string]string{
						"user": "aws-credentials", "oidc": "arn:" + partition + ":iam::000000000000:role/dynk8s-daemon",
						"roles_anywhere": "arn:" + partition + ":rolesanywhere:" + place.region + ":000000000000:trust-anchor/",
					}[kind],
				} {
					if !strings.Contains(rendered, want) {
						t.Errorf("the rendered chart has no %s", want)
					}
				}
			})
		}
	}
}

// render renders the chart with the output, written as `tofu output -json` does,
// and nothing else.
func render(t *testing.T, helm string, values any) string {
	t.Helper()
	content, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "aws.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helm, "template", "dynk8s", filepath.Join(where.root, "charts", "dynk8s-provisioner"),
		"--namespace", "dynk8s", "--kube-version", "1.37.2", "-f", file)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
