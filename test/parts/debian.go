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

// debianPackages are the packages of the programs that come from Debian, or from
// whatever other distribution the machine runs.
var debianPackages = map[string]string{
	"bats": "bats", "buildah": "buildah", "busybox": "busybox-static", "cloud-init": "cloud-init",
	"ip": "iproute2", "shellcheck": "shellcheck", "wg": "wireguard-tools", "wg-quick": "wireguard-tools",
}

// Debian makes sure that the programs are there. It installs what is missing
// when it runs as root and apt-get is there; otherwise its error names the
// command that would.
func Debian(ctx context.Context, w io.Writer, programs ...string) error {
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		pkg, ok := debianPackages[program]
		if !ok {
			return fmt.Errorf("no package is known for the program %s", program)
		}
		if !slices.Contains(missing, pkg) {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("programs are missing: run apt-get %s as root, or install these packages as your system does", strings.Join(install, " "))
	}
	p := newProgress(w, "Debian packages")
	defer p.step("installing %s", strings.Join(missing, ", "))()
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if run(ctx, "/", env, "apt-get", install...) == nil {
		return nil
	}
	if err := run(ctx, "/", env, "apt-get", "update"); err != nil { // the lists may be old, or none
		return err
	}
	return run(ctx, "/", env, "apt-get", install...)
}
