//go:build linux

package stack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// BindBootstrappers applies docs/bootstrap-rbac.yaml for a group of bootstrap
// tokens, under names that end in suffix.
func (s *Stack) BindBootstrappers(ctx context.Context, group, suffix string) error {
	return s.bootstrapRBAC(ctx, group, suffix, "apply", "-f", "-")
}

// UnbindBootstrappers deletes what BindBootstrappers applied.
func (s *Stack) UnbindBootstrappers(ctx context.Context, group, suffix string) error {
	return s.bootstrapRBAC(ctx, group, suffix, "delete", "--ignore-not-found", "-f", "-")
}

func (s *Stack) bootstrapRBAC(ctx context.Context, group, suffix string, command ...string) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(root, "docs", "bootstrap-rbac.yaml"))
	if err != nil {
		return err
	}
	manifest = bytes.ReplaceAll(manifest, []byte(`"system:bootstrappers:dynk8s"`), fmt.Appendf(nil, "%q", group))
	if suffix != "" {
		manifest = bytes.ReplaceAll(manifest, []byte("  name: dynk8s:"), []byte("  name: dynk8s:"+suffix+":"))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Programs(), "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig()}, command...)...)
	cmd.Stdin = bytes.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("RBAC of the bootstrappers' group: %w\n%s", err, out)
	}
	return nil
}
