package nodecertificate

import (
	"context"
	"errors"
	"net/netip"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Subject is a Node that somebody may become, and its instance or that it is a
// host.
type Subject struct {
	// InstanceID is empty for a host.
	InstanceID instance.ID
	NodeName   string
	// Host says that the Node is a host, which is not in EC2 and which an operator
	// added by hand. Of its certificates only the client's is for us to decide.
	Host bool
	// DNSNames are what a serving certificate may name beside the Node's name
	// and the instance id; letter case does not matter. A client certificate
	// names none.
	DNSNames []string
	// Addresses are what a serving certificate may name.
	Addresses []netip.Addr
}

// describe says who the subject is, for conditions and the log.
func (s Subject) describe() string {
	if s.Host {
		return "host " + s.NodeName
	}
	return "node " + s.NodeName + " of instance " + string(s.InstanceID)
}

// ErrNotOurs says that a bootstrap token or a Node is none of ours. It takes
// evidence: what is only not known yet is another error.
var ErrNotOurs = errors.New("not ours")

// Refusal is an error that says why a request is to be denied, as a text for the
// operator and for whoever made the request. It must hold nothing secret.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

// Owners tells which Node a requestor may have certificates for. Its answers
// must be fresh, since a decision is final. An error that is neither ErrNotOurs
// nor a Refusal means that it cannot tell now, and is asked again later. The Subject
// beside a Refusal, if any, is for the log.
type Owners interface {
	// OfToken returns the Node that the bootstrap token with the id was made
	// for. The id has the form of one. After ErrNotOurs, as after a Refusal, the
	// request is denied.
	OfToken(ctx context.Context, tokenID string) (Subject, error)
	// OfNode returns what a serving certificate of the Node may name. The name
	// has the form of a Node's. After ErrNotOurs the request is left to other
	// approvers; a Refusal, by which it is denied, is for a Node that claims to
	// be ours and is not what it says.
	OfNode(ctx context.Context, name string) (Subject, error)
}
