//go:build linux

package join

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const (
	joinLog    = "join.log"
	kubeletLog = "kubelet.log"
)

// Inside the node, in memory.
const (
	home        = "/run/dynk8s"
	servedPath  = home + "/join-served.yaml"
	configPath  = home + "/join.yaml"
	patchesPath = home + "/patches"
)

// KubeletPatch is what a kubelet's configuration needs in the namespaces of this
// machine, a part of a KubeletConfiguration.
//
//go:embed kubelet-patch.yaml
var KubeletPatch []byte

// Systemctl is a shell script that stands in for systemctl, for the units kubelet
// and wg-quick@INTERFACE. The environment says where the kubelet's log is,
// KUBELET_LOG, and where further files of its configuration are,
// KUBELET_CONFIG_DIR.
//
//go:embed systemctl.sh
var Systemctl []byte

// IgnoredPreflightErrors are the checks of kubeadm that a machine with cgroup v1
// or swap cannot pass.
const IgnoredPreflightErrors = "SystemVerification,Swap"

// writeFiles puts the artifacts where an instance would have put them, and
// beside them what the machine needs.
func (s spec) writeFiles() error {
	for _, f := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{
		{s.DiscoveryPath, s.Discovery, 0o600},
		{servedPath, s.JoinConfiguration, 0o600},
		{configPath, withPatches(s.JoinConfiguration), 0o600},
		{patchesPath + "/kubeletconfiguration0+merge.yaml", KubeletPatch, 0o600},
		{home + "/bin/systemctl", Systemctl, 0o700},
	} {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// withPatches names the folder of patches, which kubeadm takes from the
// configuration only. What was served stays as it is, byte for byte, before it.
func withPatches(served []byte) []byte {
	return fmt.Appendf(slices.Clone(served), "\npatches: {directory: %s}\n", patchesPath)
}

// command runs a program of the control plane, with its output in a log.
func (s spec) command(log *os.File, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.Programs, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(),
		"PATH="+home+"/bin:"+s.Programs+":"+os.Getenv("PATH"),
		"TMPDIR="+home, "KUBELET_LOG="+filepath.Join(s.Dir, kubeletLog))
	return cmd
}

func (s spec) createLog(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(s.Dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

// startRuntime starts the fake container runtime on the socket that the join
// configuration names.
func (s spec) startRuntime() error {
	if err := os.MkdirAll(filepath.Dir(s.CRISocket), 0o750); err != nil {
		return err
	}
	log, err := s.createLog("fakecri.log")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := s.command(log, "fakecri", "unix://"+s.CRISocket)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return awaitSocket(s.CRISocket, ended)
}

func awaitSocket(path string, ended <-chan error) error {
	deadline := time.After(30 * time.Second)
	for {
		c, err := net.Dial("unix", path)
		if err == nil {
			return c.Close()
		}
		select {
		case end := <-ended:
			return fmt.Errorf("it ended: %w", errors.Join(end, err))
		case <-deadline:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// join validates the join configuration as it was served and joins with it.
func (s spec) join() error {
	log, err := s.createLog(joinLog)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := s.command(log, "kubeadm", "config", "validate", "--config", servedPath).Run(); err != nil {
		return fmt.Errorf("validating the join configuration: %w", err)
	}
	return s.command(log, "kubeadm", "join", "--config", configPath,
		"--ignore-preflight-errors="+IgnoredPreflightErrors).Run()
}
