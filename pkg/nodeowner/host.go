package nodeowner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/nodecertificate"
)

// ofHost returns the Node of the name that the token of a host was made for, as
// long as no Node of that name is Ready: a host joins once.
func (o Owners) ofHost(ctx context.Context, tokenID string) (nodecertificate.Subject, error) {
	token, err := o.Hosts.ByTokenID(ctx, tokenID)
	if errors.Is(err, bootstraptoken.ErrNotFound) {
		return nodecertificate.Subject{}, nodecertificate.ErrNotOurs
	}
	if err != nil {
		return nodecertificate.Subject{}, err
	}
	subject := nodecertificate.Subject{Host: true, NodeName: token.Host}
	if token.Expired(time.Now()) {
		return subject, nodecertificate.Refusal("the bootstrap token has expired")
	}
	// The label may have been written by hand.
	if _, err := instance.ParseID(token.Host); err == nil {
		return subject, nodecertificate.Refusal(fmt.Sprintf("%s is the name of an instance, not of a host", token.Host))
	}
	there, found, err := o.Nodes.Named(ctx, token.Host)
	switch {
	case err != nil:
		return subject, err
	case found && there.InstanceID != "":
		return subject, nodecertificate.Refusal(fmt.Sprintf("node %s is that of instance %s", token.Host, there.InstanceID))
	case found && there.Ready():
		return subject, nodecertificate.Refusal(fmt.Sprintf("host %s has joined", token.Host))
	}
	return subject, nil
}
