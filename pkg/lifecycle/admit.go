package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

var (
	// errClaimMoved says that the claim vanished or changed during the admission.
	errClaimMoved = errors.New("the claim changed during the admission")
	// errJoinedBefore says that only an operator may let the instance in again.
	errJoinedBefore = errors.New("the instance has joined before")
)

// admit gives a key and a token to a starting instance that is ours and has not
// joined, or completes what it has been given in part.
func (l *Lifecycle) admit(ctx context.Context, inst instance.Instance, profile Profile) error {
	err := l.tryAdmit(ctx, inst, profile)
	if errors.Is(err, wireguardkey.ErrExhausted) {
		// Between the choice and here a key may have become free, and its signal
		// passed: so first wait, then look once more.
		l.waiting.add(inst.ID)
		err = l.tryAdmit(ctx, inst, profile)
	}
	switch {
	case err == nil:
		l.waiting.remove(inst.ID)
	case errors.Is(err, wireguardkey.ErrExhausted):
		return &exhausted{err}
	default:
		return err
	}
	// Its end may have come meanwhile, and have been handled before our writes.
	switch {
	case l.buriedAs(inst.ID, instance.Terminated):
		_, err = l.retire(ctx, inst.ID)
	case l.buried(inst.ID): // it still uses its key
		_, err = l.close(ctx, inst.ID)
	}
	return err
}

func (l *Lifecycle) tryAdmit(ctx context.Context, inst instance.Instance, profile Profile) error {
	held, err := l.keys.Held(ctx, inst.ID)
	if err != nil {
		return err
	}
	claim, err := l.tokens.Find(ctx, inst.ID)
	var key wireguardkey.Key
	switch {
	case joinedBefore(held) && (errors.Is(err, bootstraptoken.ErrNotFound) || (err == nil && !claim.Reissued(time.Now()))):
		return errJoinedBefore
	case errors.Is(err, bootstraptoken.ErrNotFound):
		claim, key, err = l.claim(ctx, inst, profile, held)
	case err != nil:
		return err
	default:
		claim, key, err = l.settle(ctx, inst, claim, held, profile)
	}
	if err != nil {
		return err
	}
	_, err = l.label(ctx, claim, key, profile)
	return err
}

// joinedBefore reports whether the instance that holds the keys had a Ready node.
func joinedBefore(held []wireguardkey.Key) bool {
	return slices.ContainsFunc(held, wireguardkey.Key.Joined)
}

// claim chooses a key and creates the claim that names it. Another replica's
// claim, made at the same time, may be returned in its place.
func (l *Lifecycle) claim(ctx context.Context, inst instance.Instance, profile Profile, held []wireguardkey.Key) (bootstraptoken.Claim, wireguardkey.Key, error) {
	key, err := l.keyFor(ctx, inst.ID, held, profile)
	if err != nil {
		return bootstraptoken.Claim{}, key, err
	}
	claim, created, err := l.tokens.Create(ctx, bootstraptoken.Request{
		Instance: inst, Profile: profile.Name, KeyName: key.Name(), Settings: profile.Token,
	})
	if err != nil {
		return claim, key, err
	}
	if !created {
		return l.settle(ctx, inst, claim, held, profile)
	}
	l.log.InfoContext(ctx, "bootstrap token created", "instance", inst.ID, "token_id", claim.Token.ID(),
		"key", claim.KeyName, "profile", profile.Name)
	return claim, key, nil
}

// keyFor returns the key that the instance holds, by label or by what is left of
// it, or else a free one.
func (l *Lifecycle) keyFor(ctx context.Context, id instance.ID, held []wireguardkey.Key, profile Profile) (wireguardkey.Key, error) {
	if key, found := preferred(held, id, ""); found {
		return key, nil
	}
	if key, found, err := l.restored(ctx, id); found || err != nil {
		return key, err
	}
	return l.keys.Choose(ctx, id, profile.Keys, nil)
}

// restored returns a key of the instance whose label a hand removed, with the
// label put back. An error must not make us choose another key: the lost one may
// have been handed out.
func (l *Lifecycle) restored(ctx context.Context, id instance.ID) (wireguardkey.Key, bool, error) {
	for _, name := range l.keys.LostNames(id) {
		ok, err := l.keys.Restore(ctx, name, id)
		if err != nil {
			return wireguardkey.Key{}, false, err
		}
		if ok {
			key, err := l.keys.Get(ctx, name)
			return key, err == nil, err
		}
	}
	return wireguardkey.Key{}, false, nil
}

// settle renews the claim if it has expired, adds what EC2 did not tell before,
// makes the claim name the key that the instance holds, if it holds one, and
// reads the key that it names.
func (l *Lifecycle) settle(ctx context.Context, inst instance.Instance, claim bootstraptoken.Claim,
	held []wireguardkey.Key, profile Profile,
) (bootstraptoken.Claim, wireguardkey.Key, error) {
	if claim.Expired(time.Now()) {
		var err error
		if claim, err = l.tokens.Renew(ctx, claim, profile.Token.TTL); err != nil {
			return claim, wireguardkey.Key{}, err
		}
	}
	if claim.Lacks(inst) {
		var err error
		if claim, err = l.tokens.Describe(ctx, claim, inst); err != nil {
			return claim, wireguardkey.Key{}, err
		}
	}
	if key, found := preferred(held, claim.InstanceID, claim.KeyName); found {
		if key.Name() == claim.KeyName {
			return claim, key, nil
		}
		claim, err := l.tokens.MoveTo(ctx, claim, key.Name())
		return claim, key, err
	}
	key, err := l.keys.Get(ctx, claim.KeyName)
	if errors.Is(err, wireguardkey.ErrUnusable) { // removed by a hand: label will choose another
		return claim, wireguardkey.Key{}, nil
	}
	return claim, key, err
}

// preferred returns which of the keys that an instance holds is its key: one
// that was handed out, else the one that the claim names, else the first.
func preferred(held []wireguardkey.Key, id instance.ID, claimed string) (wireguardkey.Key, bool) {
	if len(held) == 0 {
		return wireguardkey.Key{}, false
	}
	choice := held[0]
	for _, key := range held {
		if key.Marked(id) {
			return key, true
		}
		if key.Name() == claimed {
			choice = key
		}
	}
	return choice, true
}

// label labels the key that the claim names. When that is not to be had, the
// claim moves to a free one; when there is none, the claim goes too, because a
// token without a key is of no use. It returns the claim as it is then.
func (l *Lifecycle) label(ctx context.Context, claim bootstraptoken.Claim, key wireguardkey.Key, profile Profile) (bootstraptoken.Claim, error) {
	id := claim.InstanceID
	tried := map[string]bool{}
	for {
		err := wireguardkey.ErrUnusable
		if key != (wireguardkey.Key{}) {
			err = l.keys.Allocate(ctx, key, id)
		}
		if err == nil {
			return claim, l.confirm(ctx, claim)
		}
		if !errors.Is(err, wireguardkey.ErrTaken) && !errors.Is(err, wireguardkey.ErrUnusable) {
			return claim, err
		}
		if key != (wireguardkey.Key{}) && key.Marked(id) { // another one would be its second
			return claim, fmt.Errorf("key %s, which the instance was handed: %w", key.Name(), err)
		}
		tried[claim.KeyName] = true
		if key, err = l.keys.Choose(ctx, id, profile.Keys, tried); err != nil {
			if errors.Is(err, wireguardkey.ErrExhausted) {
				_, revokeErr := l.tokens.RevokeUnchanged(ctx, claim)
				err = errors.Join(err, revokeErr)
			}
			return claim, err
		}
		if claim, err = l.tokens.MoveTo(ctx, claim, key.Name()); err != nil {
			return claim, err
		}
	}
}

// confirm reads the claim once more after its key was labelled. When it is gone
// or names another key, the label goes back, unless the key was handed out or is
// meant for the instance by a newer claim.
func (l *Lifecycle) confirm(ctx context.Context, claim bootstraptoken.Claim) error {
	current, err := l.tokens.Current(ctx, claim)
	if err != nil || current {
		return err
	}
	claims, err := l.tokens.FindAll(ctx, claim.InstanceID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(claims, func(c bootstraptoken.Claim) bool { return c.KeyName == claim.KeyName }) {
		return errClaimMoved
	}
	if _, err := l.keys.TakeBack(ctx, claim.KeyName, claim.InstanceID); err != nil {
		return fmt.Errorf("%w; and taking the key back failed: %w", errClaimMoved, err)
	}
	return errClaimMoved
}
