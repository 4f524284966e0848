package artifact

// CheckWireGuardConfig returns an error when no join configuration can be made
// for the holder of a wg-quick configuration, because it gives no address for
// the kubelet's node-ip. The error quotes nothing of the configuration.
func CheckWireGuardConfig(config []byte) error {
	_, err := interfaceAddress(config)
	return err
}
