package instance

import (
	"errors"
	"net/netip"
	"time"
)

// ErrNotFound says that EC2's answer did not hold the instance. Just after a
// launch that is normal, so by itself it is no evidence that the instance is
// gone.
var ErrNotFound = errors.New("instance not found in EC2")

// Instance is what the program needs to know of an EC2 instance.
type Instance struct {
	ID    ID
	State State
	// LaunchTime moves when the instance is stopped and started, not when it
	// reboots.
	LaunchTime time.Time
	// Type is the instance type, such as t3.small.
	Type string
	// Zone is the availability zone, such as us-east-2a.
	Zone string
	// PrivateDNSName is empty once the instance terminates.
	PrivateDNSName string
	// PublicAddresses are its public IPv4 address and its IPv6 addresses; empty
	// for an instance that has none, or none yet.
	PublicAddresses []netip.Addr
	// Tags are empty, for a while, on an instance that was just launched.
	Tags map[string]string
}

// ProviderID is the spec.providerID of the instance's Node, in the form of the
// AWS cloud provider, by which Cluster Autoscaler knows it.
func (i Instance) ProviderID() string {
	return providerIDPrefix + i.Zone + "/" + string(i.ID)
}
