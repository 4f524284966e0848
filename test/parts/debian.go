//go:build linux

package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackages names the Debian package of each program that tests use and
// that is no module of Go.
var debianPackages = map[string]string{
	"bats":            "bats",
	"buildah":         "buildah",
	"busybox":         "busybox-static",
	"cloud-init":      "cloud-init",
	"curl":            "curl",
	"dash":            "dash",
	"ip":              "iproute2",
	"openssl":         "openssl",
	"shellcheck":      "shellcheck",
	"systemd-analyze": "systemd",
	"wg":              "wireguard-tools",
	"wg-quick":        "wireguard-tools",
}

// Debian sees to it that programs are on the machine. It installs the Debian
// packages of those that are missing, which takes root and apt-get, and says so
// on w (nil: nowhere); where it cannot, the error names the command that would.
func Debian(ctx context.Context, w io.Writer, programs ...string) error {
	missing, err := missingPackages(programs)
	if err != nil || len(missing) == 0 {
		return err
	}
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	p := newProgress(w, "Debian packages")
	unlock, err := lock(ctx, filepath.Join(root, "debian.lock"), p)
	if err != nil {
		return fmt.Errorf("locking the installation of packages: %w", err)
	}
	defer unlock()
	if missing, err = missingPackages(programs); err != nil || len(missing) == 0 {
		return err // installed while this process waited
	}
	command := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("programs are missing: %s; install them, on Debian as root: %s", strings.Join(programs, ", "), command)
	}
	defer p.step("%s", command)()
	if err := aptInstall(ctx, missing); err != nil {
		return fmt.Errorf("%w\nto do it by hand: apt-get update && %s", err, command)
	}
	if missing, err := missingPackages(programs); err != nil || len(missing) > 0 {
		return fmt.Errorf("installed, and yet programs are missing of: %s", strings.Join(missing, " "))
	}
	return nil
}

// aptInstall installs packages, with fresh lists when those that are there are
// too old or none.
func aptInstall(ctx context.Context, packages []string) error {
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	args := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if run(ctx, "/", env, "apt-get", args...) == nil {
		return nil
	}
	if err := run(ctx, "/", env, "apt-get", "update"); err != nil {
		return err
	}
	return run(ctx, "/", env, "apt-get", args...)
}

// missingPackages returns the packages of the programs that are not on PATH.
func missingPackages(programs []string) ([]string, error) {
	var missing []string
	for _, program := range programs {
		pkg, known := debianPackages[program]
		if !known {
			return nil, fmt.Errorf("no Debian package is known for %q: add it to debianPackages", program)
		}
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(missing, pkg) {
			missing = append(missing, pkg)
		}
	}
	return missing, nil
}
