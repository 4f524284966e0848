//go:build linux

package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// debianPackages has the package of each program that comes from the
// distribution, under the name it has in Debian, Ubuntu and their like.
var debianPackages = map[string]string{
	"bats": "bats", "buildah": "buildah", "busybox": "busybox-static", "cloud-init": "cloud-init", "dash": "dash",
	"ip": "iproute2", "shellcheck": "shellcheck", "wg": "wireguard-tools", "wg-quick": "wireguard-tools",
}

// Debian makes sure that the programs are on PATH. As root, where apt-get is, it
// installs those that are not, and says so on w (nil: nowhere); otherwise the
// error has the command that would.
func Debian(ctx context.Context, w io.Writer, programs ...string) error {
	missing := missingPackages(programs)
	if len(missing) == 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("not installed: %s; install it (Debian: apt-get install %s)",
			strings.Join(missing, ", "), strings.Join(missing, " "))
	}
	// Tests of several packages run side by side; apt-get has a lock, too, but
	// does not wait for it unless told.
	p := newProgress(w, "Debian packages")
	defer p.step("installing %s", strings.Join(missing, ", "))()
	install := func() error {
		args := append([]string{"-q", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "install"}, missing...)
		return run(ctx, "", append(os.Environ(), "DEBIAN_FRONTEND=noninteractive"), apt, args...)
	}
	if err := install(); err != nil { // the lists are old, or not there
		if err := run(ctx, "", os.Environ(), apt, "-q", "update"); err != nil {
			return err
		}
		if err := install(); err != nil {
			return err
		}
	}
	if missing := missingPackages(programs); len(missing) > 0 {
		return fmt.Errorf("installed, but not on PATH: the programs of %s", strings.Join(missing, ", "))
	}
	return nil
}

// missingPackages are the packages of the programs that are not on PATH.
func missingPackages(programs []string) []string {
	var missing []string
	for _, program := range programs {
		name, known := debianPackages[program]
		if !known {
			name = program
		}
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing
}
