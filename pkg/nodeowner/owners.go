package nodeowner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/nodecertificate"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// Claims finds the claim of a token, or answers with an error that is
// bootstraptoken.ErrNotFound.
type Claims interface {
	ByTokenID(ctx context.Context, tokenID string) (bootstraptoken.Claim, error)
}

// Hosts finds the token of a host, or answers with an error that is
// bootstraptoken.ErrNotFound.
type Hosts interface {
	ByTokenID(ctx context.Context, tokenID string) (bootstraptoken.HostToken, error)
}

// Nodes finds the instance of a Node; see node.Nodes.
type Nodes interface {
	// Named reads the Node of a name from the API server.
	Named(ctx context.Context, name string) (node.Node, bool, error)
	InstanceOf(name string) (id instance.ID, inEC2, found bool)
}

// Keys reads the keys that an instance holds.
type Keys interface {
	Held(ctx context.Context, id instance.ID) ([]wireguardkey.Key, error)
}

// Instances answers what EC2 knows of one instance, or with an error that is
// instance.ErrNotFound.
type Instances interface {
	Instance(ctx context.Context, id instance.ID) (instance.Instance, error)
}

// Lifecycle knows which instances are ours and still joining.
type Lifecycle interface {
	// OpenFor returns an error when the instance of the claim may not join any
	// more.
	OpenFor(claim bootstraptoken.Claim) error
	// ProfileOf returns the first profile that the tags match.
	ProfileOf(tags map[string]string) (lifecycle.Profile, bool)
}

// Names gives the name that an instance's Node has.
type Names interface {
	NodeName(g lifecycle.Grant) (string, error)
}

// Owners implements nodecertificate.Owners. All its fields must be set.
type Owners struct {
	Claims    Claims
	Hosts     Hosts
	Nodes     Nodes
	Keys      Keys
	Instances Instances
	Lifecycle Lifecycle
	Names     Names
}

// OfToken returns the Node that the token was made for, as long as its instance,
// or the host, may join.
func (o Owners) OfToken(ctx context.Context, tokenID string) (nodecertificate.Subject, error) {
	claim, err := o.Claims.ByTokenID(ctx, tokenID)
	if errors.Is(err, bootstraptoken.ErrNotFound) {
		return o.ofHost(ctx, tokenID)
	}
	if err != nil {
		return nodecertificate.Subject{}, err
	}
	subject := nodecertificate.Subject{InstanceID: claim.InstanceID}
	if claim.Expired(time.Now()) {
		return subject, nodecertificate.Refusal("the bootstrap token has expired")
	}
	if err := o.Lifecycle.OpenFor(claim); err != nil {
		return subject, nodecertificate.Refusal(fmt.Sprintf("instance %s has joined, or is on its way out", claim.InstanceID))
	}
	inst, err := o.Instances.Instance(ctx, claim.InstanceID)
	if err != nil {
		return subject, fmt.Errorf("look the instance up: %w", err)
	}
	if !inst.State.Starting() {
		return subject, nodecertificate.Refusal(fmt.Sprintf("instance %s is %s", claim.InstanceID, inst.State))
	}
	if subject.NodeName, err = o.Names.NodeName(lifecycle.GrantOfClaim(claim)); err != nil {
		return subject, fmt.Errorf("name of the instance's node: %w", err)
	}
	// A name template may give one name to two instances.
	if of, _, found := o.Nodes.InstanceOf(subject.NodeName); found && of != claim.InstanceID {
		return subject, nodecertificate.Refusal(fmt.Sprintf("a node %s is there already and is not that of instance %s", subject.NodeName, claim.InstanceID))
	}
	return subject, nil
}

var errNotSeen = errors.New("the node is not known yet")

// OfNode returns what the serving certificate of a Node may name: the Node's
// name, the instance id, the private DNS name and the WireGuard address.
func (o Owners) OfNode(ctx context.Context, name string) (nodecertificate.Subject, error) {
	id, inEC2, found := o.Nodes.InstanceOf(name)
	switch {
	case !found:
		return nodecertificate.Subject{}, errNotSeen
	case !inEC2:
		return nodecertificate.Subject{}, nodecertificate.ErrNotOurs
	}
	inst, err := o.Instances.Instance(ctx, id)
	if errors.Is(err, instance.ErrNotFound) { // of another account, perhaps
		return nodecertificate.Subject{}, nodecertificate.ErrNotOurs
	}
	if err != nil {
		return nodecertificate.Subject{}, err
	}
	profile, ours := o.Lifecycle.ProfileOf(inst.Tags)
	if !ours {
		return nodecertificate.Subject{}, nodecertificate.ErrNotOurs
	}
	subject := nodecertificate.Subject{InstanceID: id, NodeName: name, DNSNames: dnsNames(inst)}
	expected, err := o.Names.NodeName(lifecycle.GrantOf(inst, profile))
	switch {
	case err != nil:
		return subject, fmt.Errorf("name of the instance's node: %w", err)
	case expected != name:
		return subject, nodecertificate.Refusal(fmt.Sprintf("the node says that it is instance %s, whose node is called %s", id, expected))
	case !inst.State.Starting():
		return subject, nodecertificate.Refusal(fmt.Sprintf("instance %s is %s", id, inst.State))
	}
	subject.Addresses, err = o.addresses(ctx, id)
	return subject, err
}

func dnsNames(inst instance.Instance) []string {
	names := []string{string(inst.ID)}
	if inst.PrivateDNSName != "" {
		names = append(names, inst.PrivateDNSName)
	}
	return names
}

// addresses returns the WireGuard address of the key that was handed out to the
// instance. Without one the instance joined by other means.
func (o Owners) addresses(ctx context.Context, id instance.ID) ([]netip.Addr, error) {
	held, err := o.Keys.Held(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, key := range held {
		if !key.Marked(id) {
			continue
		}
		address, err := artifact.NodeAddress(key.Reveal())
		if err != nil {
			return nil, fmt.Errorf("address in key %s: %w", key.Name(), err)
		}
		return []netip.Addr{address}, nil
	}
	return nil, nodecertificate.ErrNotOurs
}
