//go:build linux

package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

const version = "v0.0.0-test"

var arches = []string{"amd64", "arm64"}

// TestRelease builds the release twice, in two folders, and the image once for
// each architecture: it is the same program every time.
func TestRelease(t *testing.T) {
	t.Parallel()
	here, elsewhere := copyTree(t), copyTree(t)
	dist := release(t, here)
	again := release(t, elsewhere)
	for _, arch := range arches {
		name := "dynk8s-provisioner-linux-" + arch
		program := read(t, filepath.Join(dist, name))
		if !bytes.Equal(program, read(t, filepath.Join(again, name))) {
			t.Errorf("%s: two builds of the same source differ", name)
		}
		isStatic(t, program, arch)
		lists(t, filepath.Join(dist, name+".cdx.json"))
		t.Run("image for "+arch, func(t *testing.T) { imageHolds(t, here, arch, program) })
	}
	checksums(t, dist)
	out, err := exec.CommandContext(t.Context(), filepath.Join(dist, "dynk8s-provisioner-linux-"+runningArch(t)), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Errorf("version: %s %v", out, err)
	}
}

// copyTree copies what git knows of, changed or not, into a new folder.
func copyTree(t *testing.T) string {
	t.Helper()
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z",
		"cmd", "pkg", "go.mod", "go.sum", "Dockerfile", "Makefile", ".dockerignore").Output()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), content)
	}
	return to
}

// release runs `make release` in the tree and returns the folder of its files.
func release(t *testing.T, tree string) string {
	t.Helper()
	dist := filepath.Join(t.TempDir(), "dist")
	runMake(t, tree, "release", "DIST="+dist, "VERSION="+version)
	return dist
}

func runMake(t *testing.T, tree string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", tree}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// isStatic fails when the program needs a loader or another architecture.
func isStatic(t *testing.T, program []byte, arch string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != want {
		t.Errorf("%s is for %v", arch, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a loader", arch)
		}
	}
}

// lists fails when the SBOM does not list the modules that the program is known
// to be made of.
func lists(t *testing.T, file string) {
	t.Helper()
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, file), &bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range bom.Components {
		names = append(names, c.Name)
	}
	for _, want := range []string{"k8s.io/client-go", "github.com/aws/aws-sdk-go-v2/service/sqs", "github.com/spf13/viper"} {
		if bom.BOMFormat != "CycloneDX" || !slices.Contains(names, want) {
			t.Errorf("%s lists no %s", filepath.Base(file), want)
		}
	}
}

// checksums fails when SHA256SUMS leaves a file out or has another sum.
func checksums(t *testing.T, dist string) {
	t.Helper()
	var want strings.Builder
	files, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "SHA256SUMS" {
			sum := sha256.Sum256(read(t, filepath.Join(dist, f.Name())))
			fmt.Fprintf(&want, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
		}
	}
	if got := string(read(t, filepath.Join(dist, "SHA256SUMS"))); got != want.String() || len(files) != 5 {
		t.Errorf("SHA256SUMS:\n%swant\n%s", got, want.String())
	}
}

// imageHolds builds the image of the tree and fails when there is anything in it
// but the program and the certificates of the public authorities.
func imageHolds(t *testing.T, tree, arch string, program []byte) {
	image := build(t, tree, arch)
	names := image.files()
	if want := []string{"dynk8s-provisioner", "etc/ssl/certs/ca-certificates.crt"}; !slices.Equal(names, want) {
		t.Errorf("the image holds %q", names)
	}
	if !bytes.Equal(image.content["dynk8s-provisioner"], program) {
		t.Error("the program in the image is not the released one")
	}
	if c := image.config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/dynk8s-provisioner"}) ||
		!slices.Contains(c.Env, "PATH=/") || !slices.Equal(c.Cmd, []string{"run", "--config", "/etc/dynk8s/config.yaml"}) {
		t.Errorf("the image is configured as %+v", c)
	}
	if image.arch != arch {
		t.Errorf("the image is for %s", image.arch)
	}
	const limit = 30 << 20
	t.Logf("%s: %.1f MiB compressed", arch, float64(image.size)/(1<<20))
	if image.size > limit {
		t.Errorf("the image has %d bytes compressed, more than %d", image.size, limit)
	}
}

func runningArch(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "env", "GOHOSTARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
