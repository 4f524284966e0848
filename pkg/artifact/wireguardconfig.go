package artifact

import (
	"errors"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

var errEmptyWireGuardConfig = errors.New("wireguard config: the key's configuration is empty")

// renderWireGuardConfig changes nothing: the operator's configuration is
// served as it stands.
func renderWireGuardConfig(grant lifecycle.Grant) ([]byte, error) {
	if len(grant.WireGuardConfig) == 0 {
		return nil, errEmptyWireGuardConfig
	}
	return grant.WireGuardConfig, nil
}
