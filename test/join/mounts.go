//go:build linux

package join

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// overlaid are the folders to which kubeadm and the kubelet write. Folders below
// them are made beforehand: one that exists only in the machine's own tree
// stays root's, and this may not be root.
var overlaid = map[string][]string{
	"/etc": {"kubernetes"},
	"/var": {"lib", "log"},
	"/usr": {"libexec"},
}

// mountAll makes the machine read-only and lays memory over what a node writes.
func (s spec) mountAll() error {
	for _, dir := range []string{"/etc", "/var", "/usr", "/run"} {
		if s.Dir == dir || strings.HasPrefix(s.Dir, dir+"/") {
			return fmt.Errorf("the node's folder %s must not lie below %s, which is overlaid", s.Dir, dir)
		}
	}
	memory := filepath.Join(s.Dir, "memory")
	if err := os.MkdirAll(memory, 0o750); err != nil {
		return err
	}
	steps := []func() error{
		mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), // nothing leaks out
		mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount(s.Dir, s.Dir, "", unix.MS_BIND, ""),
		// All of it: sysctls, control groups, everybody's files.
		func() error { return setReadOnly("/", unix.AT_RECURSIVE, true) },
		func() error { return setReadOnly(s.Dir, 0, false) },
		mount("tmpfs", memory, "tmpfs", 0, "mode=0755"),
	}
	steps = append(steps, func() error { return s.writeHosts(filepath.Join(memory, "etc")) })
	for dir, below := range overlaid {
		steps = append(steps, func() error { return overlay(dir, filepath.Join(memory, dir), below) })
	}
	steps = append(steps, mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writeHosts makes the node's own /etc/hosts, with its name in it as WireGuard's
// and the cloud's set-up would have done. It is written under the overlay: the
// machine's own could be changed by root only.
func (s spec) writeHosts(etc string) error {
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.NodeIP != "" {
		hosts = fmt.Appendf(hosts, "\n%s %s\n", s.NodeIP, s.Name)
	}
	if net.ParseIP(s.ServerHost) == nil { // a name: network listens for it on the loopback address
		hosts = fmt.Appendf(hosts, "\n127.0.0.1 %s\n", s.ServerHost)
	}
	if err := os.MkdirAll(etc, 0o755); err != nil { //nolint:gosec // as /etc is
		return err
	}
	return os.WriteFile(filepath.Join(etc, "hosts"), hosts, 0o644) //nolint:gosec // as /etc/hosts is
}

func mount(source, target, kind string, flags uintptr, options string) func() error {
	return func() error {
		if err := unix.Mount(source, target, kind, flags, options); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
		return nil
	}
}

func setReadOnly(path string, flags uint, on bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if !on {
		attr = unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &attr); err != nil {
		return fmt.Errorf("making %s read-only (%v): %w", path, on, err)
	}
	return nil
}

// overlay lays a folder in memory over dir.
func overlay(dir, upper string, below []string) error {
	work := upper + ".work"
	for _, made := range append([]string{".", "../" + filepath.Base(work)}, below...) {
		if err := os.MkdirAll(filepath.Join(upper, made), 0o755); err != nil { //nolint:gosec // as /etc is
			return err
		}
	}
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	return mount("overlay", dir, "overlay", 0, options)()
}
