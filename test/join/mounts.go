//go:build linux

package join

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
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
	memory, err := machine.Freeze(s.Dir)
	if err != nil {
		return err
	}
	if err := s.writeHosts(filepath.Join(memory, "etc")); err != nil {
		return err
	}
	for dir, below := range overlaid {
		if err := machine.Overlay(dir, filepath.Join(memory, dir), below); err != nil {
			return err
		}
	}
	return machine.MountMemory("/run")
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
