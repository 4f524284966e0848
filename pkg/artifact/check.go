package artifact

import "net/netip"

// CheckWireGuardConfig returns an error when no join configuration can be made
// for the holder of a wg-quick configuration, because it gives no address for
// the kubelet's node-ip. The error quotes nothing of the configuration.
func CheckWireGuardConfig(config []byte) error {
	_, err := NodeAddress(config)
	return err
}

// NodeAddress returns the address that the holder of a wg-quick configuration is
// told to use as node-ip. The error quotes nothing of the configuration.
func NodeAddress(config []byte) (netip.Addr, error) { return interfaceAddress(config) }
