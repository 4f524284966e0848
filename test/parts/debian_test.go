//go:build linux

package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without apt-get, or without being root, somebody must be told what to install.
func TestDebianSaysWhatToInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir) // no apt-get there
	err := Debian(t.Context(), nil, "wg", "wg-quick", "ip", "made-up")
	if err == nil || !strings.Contains(err.Error(), "apt-get install wireguard-tools iproute2 made-up") {
		t.Errorf("got %v", err)
	}
	for _, program := range []string{"wg", "wg-quick"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := Debian(t.Context(), nil, "wg", "wg-quick"); err != nil {
		t.Errorf("they are there: %v", err)
	}
}
