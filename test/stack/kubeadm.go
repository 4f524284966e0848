//go:build linux

package stack

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"k8s.io/client-go/tools/clientcmd"
)

//go:embed kubeadm.yaml.tmpl
var kubeadmTemplate string

var kubeadmConfig = template.Must(template.New("kubeadm.yaml").Parse(kubeadmTemplate))

// makeCredentials has kubeadm make certificates and kubeconfigs.
func (s *Stack) makeCredentials(ctx context.Context) error {
	config, err := s.writeKubeadmConfig("certificates.yaml", filepath.Join(s.dir, "pki"))
	if err != nil {
		return err
	}
	if err := s.kubeadm(ctx, "certs", "all", "--config="+config); err != nil {
		return err
	}
	for _, name := range []string{"super-admin", "admin", "controller-manager"} {
		if err := s.kubeadm(ctx, "kubeconfig", name, "--config="+config, "--kubeconfig-dir="+s.dir); err != nil {
			return err
		}
		if err := s.nameServer(filepath.Join(s.dir, name+".conf")); err != nil {
			return err
		}
	}
	return nil
}

// nameServer puts the API server's real address into a kubeconfig: kubeadm has
// put the placeholder into that of the controller manager.
func (s *Stack) nameServer(path string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = s.server()
	}
	return clientcmd.WriteToFile(*config, path)
}

// writeKubeadmConfig writes a configuration for kubeadm. In the one that is
// uploaded the certificates are where they are on any cluster, not in the run
// folder: a joining kubelet looks there for its CA.
func (s *Stack) writeKubeadmConfig(name, certificatesDir string) (string, error) {
	path := filepath.Join(s.dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	err = kubeadmConfig.Execute(f, map[string]any{
		"Dir": s.dir, "CertificatesDir": certificatesDir, "Ports": s.state.Ports, "Version": kubernetesVersion(s.state.Programs),
	})
	if err != nil {
		_ = f.Close()
		return "", err
	}
	return path, f.Close()
}

// kubernetesVersion reads the version off the name of the programs' folder,
// controlplane-<version>-<hash>.
func kubernetesVersion(programs string) string {
	name := strings.TrimPrefix(filepath.Base(programs), "controlplane-")
	return name[:strings.LastIndexByte(name, '-')]
}

// kubeadm runs one phase of `kubeadm init`.
func (s *Stack) kubeadm(ctx context.Context, phase ...string) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "kubeadm.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := append([]string{"init", "phase"}, phase...)
	cmd := exec.CommandContext(ctx, filepath.Join(s.state.Programs, "kubeadm"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := spawn(cmd, false); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("kubeadm %s: %w; the end of %s:\n%s", strings.Join(args, " "), err, log.Name(), logTail(log.Name()))
	}
	return nil
}
