//go:build linux

package chart

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/parts"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const namespace = "dynk8s-system"

// valuesFiles are the files of all ways of installing that the tests know: each
// switch over the minimal values, and the chart's own examples.
func valuesFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	for _, file := range ciValues(t) {
		files[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = []string{file}
	}
	for name, values := range switches {
		files[name] = []string{files["minimal"][0], write(t, values)}
	}
	return files
}

// server is a real API server, with kubectl.
type server struct {
	*stack.Stack
	kubectlPath string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	programs, err := parts.ControlPlane(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return &server{Stack: s, kubectlPath: filepath.Join(programs, "kubectl")}
}

// kubectl returns everything that kubectl says.
func (s *server) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.kubectlPath, append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// TestServer asks a real API server about what the chart makes.
func TestServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	t.Run("takes every rendering", s.takesEveryRendering)
	t.Run("Helm 3 installs and leaves nothing", s.helm3)
	t.Run("upgrades from another version", s.upgrades)
}

// Everything that is rendered, custom resources included, passes strict
// validation without a warning, where Pods must be as the Pod Security Standard
// `restricted` wants them.
func (s *server) takesEveryRendering(t *testing.T) {
	definitions, err := parts.CustomResourceDefinitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range definitions {
		if _, err := s.kubectl(t.Context(), "", "apply", "--server-side", "-f", file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.kubectl(t.Context(), "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kubectl(t.Context(), "", "create", "namespace", namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kubectl(t.Context(), "", "label", "namespace", namespace,
		"pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted"); err != nil {
		t.Fatal(err)
	}
	files := valuesFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s.takes(t, name, files[name])
	}
}

func (s *server) takes(t *testing.T, name string, files []string) {
	t.Helper()
	rendered, err := helm(t, templateArgs(files)...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	out, err := s.kubectl(t.Context(), rendered, "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	objects := 0
	for line := range strings.Lines(out) {
		if strings.HasSuffix(line, "(server dry run)\n") {
			objects++
		} else {
			t.Errorf("%s: %s", name, line)
		}
	}
	if objects < 5 {
		t.Errorf("%s: the API server saw only %d objects:\n%s", name, objects, out)
	}
}

func templateArgs(files []string) []string {
	args := []string{"template", "dynk8s", where.chart, "--namespace", namespace, "--kube-version", "1.37.2"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	return args
}

func helm3(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := parts.Helm3(t.Context(), os.Stderr)
	if err != nil {
		return "", err
	}
	return runHelm(t, program, args...)
}

// Helm's previous major version renders the same.
func TestHelm3RendersTheSame(t *testing.T) {
	t.Parallel()
	files := valuesFiles(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		want, err := helm(t, templateArgs(files[name])...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := helm3(t, templateArgs(files[name])...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !maps.Equal(documents(got), documents(want)) {
			t.Errorf("%s: Helm 3 renders something else: %s", name, firstDifference(want, got))
		}
	}
}

func (s *server) helm3(t *testing.T) {
	demo := valuesFiles(t)["demo"][0]
	var left []string // after each step
	for _, args := range [][]string{
		{"install", "dynk8s", where.chart, "--create-namespace", "-f", demo},
		{"upgrade", "dynk8s", where.chart, "-f", demo, "--set", "replicaCount=3"},
		{"rollback", "dynk8s", "1"},
		{"uninstall", "dynk8s"},
	} {
		if _, err := helm3(t, append(args, "--namespace", "by-helm-3", "--kubeconfig", s.Kubeconfig())...); err != nil {
			t.Fatal(err)
		}
		out, err := s.kubectl(t.Context(), "", "get", "deployments,services,networkpolicies,roles,rolebindings,poddisruptionbudgets,configmaps",
			"--all-namespaces", "-l", "app.kubernetes.io/instance=dynk8s", "-o", "name")
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, out)
	}
	if strings.Count(left[0], "\n") < 5 || left[3] != "" {
		t.Errorf("installed:\n%sleft after uninstall:\n%s", left[0], left[3])
	}
}

// A Deployment's selector cannot be changed: an upgrade that tries fails, and the
// way back, too. So nothing that differs between versions may be in a selector.
func (s *server) upgrades(t *testing.T) {
	files, dir := valuesFiles(t), t.TempDir()
	if _, err := helm(t, "package", where.chart, "--version", "0.0.1", "--app-version", "0.0.1", "--destination", dir); err != nil {
		t.Fatal(err)
	}
	previous := filepath.Join(dir, "dynk8s-provisioner-0.0.1.tgz")
	var selectors, versions []string
	for _, args := range [][]string{
		{"install", "dynk8s", previous, "--create-namespace", "-f", files["demo"][0]},
		{"upgrade", "dynk8s", where.chart, "-f", files["demo"][0]},
		{"upgrade", "dynk8s", where.chart, "-f", files["demo"][0], "--set", "commonLabels.team=edge,podLabels.tier=a"},
		{"rollback", "dynk8s", "1"},
	} {
		if _, err := helm(t, append(args, "--namespace", "upgraded", "--kubeconfig", s.Kubeconfig())...); err != nil {
			t.Fatal(err)
		}
		selectors = append(selectors, s.field(t, "deployments,services,poddisruptionbudgets,networkpolicies",
			`{range .items[*]}{.metadata.name}{.spec.selector}{.spec.podSelector}{"\n"}{end}`))
		versions = append(versions, s.field(t, "deployments", `{.items[*].metadata.labels.helm\.sh/chart}`))
	}
	for i := range selectors {
		if selectors[i] == "" || selectors[i] != selectors[0] {
			t.Errorf("after step %d the selectors are %s, at first %s", i+1, selectors[i], selectors[0])
		}
	}
	if versions[0] == versions[1] || versions[0] != versions[3] {
		t.Errorf("no other version was installed: %q", versions)
	}
}

func (s *server) field(t *testing.T, kinds, path string) string {
	t.Helper()
	out, err := s.kubectl(t.Context(), "", "--namespace", "upgraded", "get", kinds, "-o", "jsonpath="+path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The table of values in the README is that of values.yaml.
func TestReadmeIsGenerated(t *testing.T) {
	t.Parallel()
	docs, err := parts.HelmDocs(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), docs, "--sort-values-order=file", "--dry-run",
		"--chart-search-root", where.chart, "--log-level", "error")
	cmd.Dir = where.root
	want, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(where.chart, "README.md")
	if *update {
		if err := os.WriteFile(file, append(bytes.TrimSpace(want), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
		t.Errorf("charts/dynk8s-provisioner/README.md is not what README.md.gotmpl and values.yaml make; go test ./chart -update: %s",
			firstDifference(string(want), string(got)))
	}
}
