//go:build linux

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Freeze makes all files of this process's mount namespace read-only but those
// below dir, with a folder in memory in it, whose path it returns.
func Freeze(dir string) (memory string, err error) {
	for _, covered := range []string{"/etc", "/var", "/usr", "/run"} {
		if dir == covered || strings.HasPrefix(dir, covered+"/") {
			return "", fmt.Errorf("the machine's folder %s must not lie below %s, which is overlaid", dir, covered)
		}
	}
	memory = filepath.Join(dir, "memory")
	if err := os.MkdirAll(memory, 0o750); err != nil {
		return "", err
	}
	for _, step := range []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }, // nothing leaks out
		mountProc,
		func() error { return mount(dir, dir, "", unix.MS_BIND, "") },
		// All of it: sysctls, control groups, everybody's files.
		func() error { return setReadOnly("/", unix.AT_RECURSIVE, true) },
		func() error { return setReadOnly(dir, 0, false) },
		func() error { return MountMemory(memory) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return memory, nil
}

// MountMemory mounts an empty folder in memory over dir.
func MountMemory(dir string) error { return mount("tmpfs", dir, "tmpfs", 0, "mode=0755") }

func mountProc() error {
	return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
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

// Overlay lays the folder upper, which is in memory, over dir, so that dir can be
// written to. The folders named below it are made beforehand: one that exists
// only in the real machine's tree stays root's, and this may not be root.
func Overlay(dir, upper string, below []string) error {
	work := upper + ".work"
	for _, made := range append([]string{".", "../" + filepath.Base(work)}, below...) {
		if err := os.MkdirAll(filepath.Join(upper, made), 0o755); err != nil { //nolint:gosec // as /etc is
			return err
		}
	}
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	return mount("overlay", dir, "overlay", 0, options)
}
