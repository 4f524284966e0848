//go:build linux

package parts

import (
	"errors"
	"os"
	"path/filepath"
)

// Root returns the repository's root folder: the first one upwards from the
// working directory that holds test/controlplane/go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the sources of the control plane's module are not here: run this inside a clone of the repository")
		}
		dir = parent
	}
}
