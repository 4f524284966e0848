//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheShellReadsTheEnvironmentAsItIs(t *testing.T) {
	t.Parallel()
	const awkward = `it's "$HOME" and \n`
	file := filepath.Join(t.TempDir(), "stack.env")
	if err := os.WriteFile(file, environment(map[string]string{"AWKWARD": awkward, "PLAIN": "x"}), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", `. "$0" && sh -c 'printf %s "$AWKWARD"'`, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != awkward {
		t.Errorf("the shell has %q, want %q", out, awkward)
	}
}

func TestWithoutAStack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	for _, name := range []string{"down", "status"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{name, "--dir", dir}, &out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out.String(), "no stack is up") {
			t.Errorf("%s says %q", name, out.String())
		}
	}
}

func TestUnknownCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"sideways", "--dir", filepath.Join(t.TempDir(), "x")}, {"up", "--port", "1"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
