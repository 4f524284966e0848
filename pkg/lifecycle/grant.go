package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// Grant is what one instance was given and may fetch. It holds secrets, which
// it does not print.
type Grant struct {
	Instance instance.ID
	// Profile is the name of the profile that the instance matched.
	Profile string
	// Zone, PrivateDNSName and InstanceType are as EC2 gave them when the
	// instance was admitted. PrivateDNSName may be empty.
	Zone, PrivateDNSName, InstanceType string
	// Token is the bootstrap token.
	Token bootstraptoken.Token
	// WireGuardConfig is the wg-quick configuration, byte for byte as the
	// operator wrote it.
	WireGuardConfig []byte
}

// ProviderID is the spec.providerID of the instance's Node.
func (g Grant) ProviderID() string {
	return instance.Instance{ID: g.Instance, Zone: g.Zone}.ProviderID()
}

// String returns the instance id, and nothing of what it was given.
func (g Grant) String() string { return "grant of " + string(g.Instance) }

// Format makes every verb of package fmt print what String returns.
func (g Grant) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, g.String()) }

// LogValue makes slog print what String returns.
func (g Grant) LogValue() slog.Value { return slog.StringValue(g.String()) }

// MarshalText makes encoding/json and others write what String returns.
func (g Grant) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// GrantOfClaim returns what the claim says, without secrets.
func GrantOfClaim(claim bootstraptoken.Claim) Grant {
	return Grant{
		Instance:       claim.InstanceID,
		Profile:        claim.Profile,
		Zone:           claim.Zone,
		PrivateDNSName: claim.PrivateDNSName,
		InstanceType:   claim.InstanceType,
	}
}

// GrantOf returns what an instance of the profile would be given, without
// secrets: all of the instance that its Node's name can be made from.
func GrantOf(inst instance.Instance, profile Profile) Grant {
	return Grant{
		Instance:       inst.ID,
		Profile:        profile.Name,
		Zone:           inst.Zone,
		PrivateDNSName: inst.PrivateDNSName,
		InstanceType:   inst.Type,
	}
}

// Reissued reports whether an operator's reissue is in force for the instance, as
// the cache has it.
func (l *Lifecycle) Reissued(id instance.ID) bool {
	_, ok := l.reissue(id)
	return ok
}

func (l *Lifecycle) reissue(id instance.ID) (readyNode string, ok bool) {
	if l.cfg.Reissues == nil {
		return "", false
	}
	return l.cfg.Reissues.Reissued(id, time.Now())
}

// Open returns ErrClosed when the instance may fetch nothing any more, as far as
// is known without a call.
func (l *Lifecycle) Open(id instance.ID) error {
	readyNode, reissued := l.reissue(id)
	return l.open(id, readyNode, reissued)
}

// open is Open for an instance of which it is known whether an operator asked
// for its token, and beside which Ready node.
func (l *Lifecycle) open(id instance.ID, readyNode string, reissued bool) error {
	if l.buried(id) {
		return ErrClosed
	}
	if found, joined := l.nodes.Find(id); joined && closes(found, readyNode, reissued) {
		return ErrClosed
	}
	if !reissued && l.keys.Joined(id) { // its Node may be gone since
		return ErrClosed
	}
	return nil
}

// OpenFor is Open by the claim that the instance has now.
func (l *Lifecycle) OpenFor(claim bootstraptoken.Claim) error {
	return l.open(claim.InstanceID, claim.ReadyNode, claim.Reissued(time.Now()))
}

// closes reports whether a node ends the join of its instance: when it is Ready,
// unless it was so already when an operator asked for the token. No clocks are
// compared: the instance's may be wrong.
func closes(n node.Node, readyNode string, reissued bool) bool {
	return n.Ready() && (!reissued || n.Incarnation != readyNode)
}

// Grant returns what the instance was given, and marks its key as handed out
// before it does. ErrNotAllocated when there is nothing to give, ErrClosed when
// there will be nothing any more; any other error means that asking again may
// help. Whether the caller may have it is not asked here.
func (l *Lifecycle) Grant(ctx context.Context, id instance.ID) (Grant, error) {
	g, err := l.grant(ctx, id)
	if apierrors.IsConflict(err) { // with another fetch of the same instance, most likely
		return l.grant(ctx, id)
	}
	return g, err
}

func (l *Lifecycle) grant(ctx context.Context, id instance.ID) (Grant, error) {
	if err := l.Open(id); err != nil {
		return Grant{}, err
	}
	claim, err := l.tokens.Find(ctx, id)
	if errors.Is(err, bootstraptoken.ErrNotFound) || (err == nil && claim.Expired(time.Now())) {
		return Grant{}, ErrNotAllocated
	}
	if err != nil {
		return Grant{}, err
	}
	// Whatever the cache says of a reissue, the claim itself decides.
	if err := l.OpenFor(claim); err != nil {
		return Grant{}, err
	}
	held, err := l.keys.Held(ctx, id)
	if err != nil {
		return Grant{}, err
	}
	if joinedBefore(held) && !claim.Reissued(time.Now()) {
		return Grant{}, ErrClosed
	}
	key, err := claimedKey(held, claim)
	if err != nil {
		return Grant{}, err
	}
	config, err := l.keys.HandOut(ctx, key, id)
	if err != nil {
		return Grant{}, err
	}
	// The claim may have moved to another key, or gone, between the first read
	// and the mark; then the mark keeps the key safe, and nothing is given.
	current, err := l.tokens.Current(ctx, claim)
	if err != nil {
		return Grant{}, err
	}
	if !current {
		return Grant{}, ErrNotAllocated
	}
	// The node may have become Ready, or the end been announced, meanwhile.
	if err := l.OpenFor(claim); err != nil {
		return Grant{}, err
	}
	g := GrantOfClaim(claim)
	g.Token, g.WireGuardConfig = claim.Token, config
	return g, nil
}

// claimedKey returns the key that the claim names, if the instance holds it and
// was not handed another one.
func claimedKey(held []wireguardkey.Key, claim bootstraptoken.Claim) (wireguardkey.Key, error) {
	var claimed wireguardkey.Key
	for _, key := range held {
		switch {
		case key.Name() == claim.KeyName:
			claimed = key
		case key.Marked(claim.InstanceID):
			return wireguardkey.Key{}, fmt.Errorf("%w as the claim says: it was handed key %s before", ErrNotAllocated, key.Name())
		}
	}
	if claimed == (wireguardkey.Key{}) {
		return wireguardkey.Key{}, fmt.Errorf("%w yet: key %s is not labelled", ErrNotAllocated, claim.KeyName)
	}
	return claimed, nil
}
