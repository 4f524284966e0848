package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// close revokes the token of an instance that is on its way out, which also
// closes the artifact endpoint for it. Its key stays: the VPN is still in use.
func (l *Lifecycle) close(ctx context.Context, id instance.ID) (string, error) {
	l.waiting.remove(id)
	claims, err := l.revoke(ctx, id)
	if err != nil {
		return "", err
	}
	if claims == 0 {
		return resultGone, nil
	}
	return resultClosed, nil
}

// revoke deletes every claim of the instance and returns how many it found.
func (l *Lifecycle) revoke(ctx context.Context, id instance.ID) (int, error) {
	claims, err := l.tokens.FindAll(ctx, id)
	if err != nil {
		return 0, err
	}
	for _, claim := range claims {
		revoked, err := l.tokens.Revoke(ctx, claim)
		if err != nil {
			return len(claims), err
		}
		if revoked {
			l.revoked(ctx, claim)
		}
	}
	return len(claims), nil
}

// revoked reports the token of an instance that ended before its node was
// Ready: the token of one that joined is revoked then.
func (l *Lifecycle) revoked(ctx context.Context, claim bootstraptoken.Claim) {
	if found, joined := l.nodes.Find(claim.InstanceID); !joined || !found.Ready() {
		l.metrics.neverJoined.Inc()
	}
	l.log.InfoContext(ctx, "bootstrap token revoked", "instance", claim.InstanceID, "token_id", claim.Token.ID())
}

// retire takes back everything that a dead instance held, in the order that
// leaves something of ours to find it by until the end.
func (l *Lifecycle) retire(ctx context.Context, id instance.ID) (string, error) {
	l.waiting.remove(id)
	claims, err := l.revoke(ctx, id)
	if err != nil {
		return "", err
	}
	held, err := l.keys.Held(ctx, id)
	if err != nil {
		return "", err
	}
	lost := l.keys.LostNames(id)
	if claims == 0 && len(held) == 0 && len(lost) == 0 && !l.ownsNode(id) {
		return resultNotOurs, nil
	}
	if deleted, err := l.nodes.Delete(ctx, id); err != nil {
		return "", err
	} else if deleted {
		l.log.InfoContext(ctx, "node deleted", "instance", id)
	}
	var errs []error
	for _, name := range lost {
		key, err := l.keys.Get(ctx, name)
		switch {
		case err == nil:
			held = append(held, key)
		case !errors.Is(err, wireguardkey.ErrUnusable): // unusable: the Secret is gone
			errs = append(errs, err)
		}
	}
	for _, key := range held {
		if _, err := l.keys.Release(ctx, key, id); err != nil {
			errs = append(errs, fmt.Errorf("release key %s: %w", key.Name(), err))
		}
	}
	l.strikes.forget(id)
	return resultRetired, errors.Join(errs...)
}

// ownsNode reports whether a Node of the instance carries our label.
func (l *Lifecycle) ownsNode(id instance.ID) bool {
	found, ok := l.nodes.Find(id)
	return ok && found.Ours
}
