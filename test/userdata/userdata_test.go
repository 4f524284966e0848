//go:build linux

package userdata

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// The test program is also the server that the scripts ask: so no further
// program has to be built and found.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		if err := serveMain(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// scripts returns the folder of the scripts, and those that are run.
func scripts(t *testing.T) (dir string, all []string) {
	t.Helper()
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(root, "userdata")
	for _, pattern := range []string{"dynk8s-join", "dynk8s-node-setup", "hosts/*.sh"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no script %s: %v", pattern, err)
		}
		all = append(all, found...)
	}
	return dir, all
}

// output runs a program and returns its output; its failure is the test's.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	if err := parts.Debian(t.Context(), os.Stderr, programs...); err != nil {
		t.Fatal(err)
	}
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	need(t, "shellcheck")
	_, all := scripts(t)
	output(t, "shellcheck", append([]string{"--enable=quote-safe-variables,check-unassigned-uppercase"}, all...)...)
	output(t, "shellcheck", "programs.sh", "world.bash")
	bats, err := filepath.Glob("*.bats")
	if err != nil || len(bats) == 0 {
		t.Fatalf("no bats files: %v", err)
	}
	output(t, "shellcheck", append([]string{"--external-sources"}, bats...)...)
}

func TestShfmt(t *testing.T) {
	t.Parallel()
	shfmt, err := parts.Shfmt(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	_, all := scripts(t)
	output(t, shfmt, append([]string{"-d", "-ln", "posix"}, all...)...)
	output(t, shfmt, "-d", "programs.sh", "world.bash")
	output(t, shfmt, "-d", "-ln", "bats", ".")
}

// shells are what Fedora, Debian and small systems call sh.
var shells = []string{"dash", "busybox ash", "bash --posix"}

func TestBats(t *testing.T) {
	t.Parallel()
	need(t, "bats", "busybox", "curl", "dash", "openssl")
	if os.Geteuid() != 0 {
		t.Fatal("must be run by root: full disks are mounts in a namespace of the test's own")
	}
	dir, _ := scripts(t)
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			// In memory: the scripts write through to the disk, which takes long.
			cmd := exec.CommandContext(t.Context(), "sh", "-c", `mount -t tmpfs tmpfs "$TMPDIR" && exec bats .`)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(),
				"USERDATA="+dir, "SERVER="+self, "REAL_CURL="+curl, "TEST_SHELL="+shell)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			report(t, string(out))
			if err != nil {
				t.Fatalf("bats: %v\n%s", err, out)
			}
		})
	}
}

// report counts the tests of bats, none of which may be skipped.
func report(t *testing.T, tap string) {
	t.Helper()
	passed := strings.Count("\n"+tap, "\nok ")
	if passed == 0 || strings.Contains(tap, "# skip") {
		t.Errorf("tests of bats were skipped, or none was run")
	}
	t.Logf("%d tests of bats passed", passed)
}
