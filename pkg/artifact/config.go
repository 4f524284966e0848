package artifact

import (
	"fmt"
	"log/slog"
	"path"
)

// The kubeadm API versions a join configuration can be written in.
const (
	V1Beta4 = "v1beta4"
	V1Beta3 = "v1beta3"
)

// DefaultDiscoveryFile is where user data puts the discovery kubeconfig.
const DefaultDiscoveryFile = "/etc/kubernetes/dynk8s/discovery.conf"

// Config is what all instances have in common.
type Config struct {
	// APIVersion is kubeadm's API version, V1Beta4 or V1Beta3 (kubeadm before
	// 1.31 reads only that). Empty means V1Beta4.
	APIVersion string
	// Server is an https URL of the API server that is reachable through the
	// VPN. Empty means the one in cluster-info.
	Server string
	// TokenInKubeconfig makes the bootstrap token the discovery kubeconfig's
	// user, for API servers that answer no anonymous request.
	TokenInKubeconfig bool
	// DiscoveryFile is the absolute path of the discovery kubeconfig on the
	// instance. Empty means DefaultDiscoveryFile.
	DiscoveryFile string
	// Logger may be nil for slog.Default().
	Logger *slog.Logger
}

// Validate returns an error that names the first field that cannot be used.
// Rendering with such a Config fails, too.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.APIVersion != V1Beta4 && c.APIVersion != V1Beta3 {
		return fmt.Errorf("kubeadm API version %.64q is not known: use %s or %s", c.APIVersion, V1Beta4, V1Beta3)
	}
	if c.Server != "" {
		if err := validateServer(c.Server); err != nil {
			return err
		}
	}
	if !path.IsAbs(c.DiscoveryFile) || hasControl(c.DiscoveryFile) {
		return fmt.Errorf("discovery file %.64q is no absolute path", c.DiscoveryFile)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.APIVersion == "" {
		c.APIVersion = V1Beta4
	}
	if c.DiscoveryFile == "" {
		c.DiscoveryFile = DefaultDiscoveryFile
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
