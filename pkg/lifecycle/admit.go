package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// errClaimMoved says that the claim vanished or changed during the admission.
var errClaimMoved = errors.New("the claim changed during the admission")

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
	if l.buried(inst.ID) { // it died meanwhile, and its end was handled before our writes
		_, err = l.retire(ctx, inst.ID)
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
	case errors.Is(err, bootstraptoken.ErrNotFound):
		claim, key, err = l.claim(ctx, inst, profile, held)
	case err != nil:
		return err
	case claim.Expired(time.Now()):
		if claim, err = l.tokens.Renew(ctx, claim, profile.Token.TTL); err == nil {
			claim, key, err = l.settleKey(ctx, claim, held)
		}
	default:
		claim, key, err = l.settleKey(ctx, claim, held)
	}
	if err != nil {
		return err
	}
	return l.label(ctx, claim, key, profile)
}

// claim chooses a key and creates the claim that names it. Another replica's
// claim, made at the same time, may be returned in its place.
func (l *Lifecycle) claim(ctx context.Context, inst instance.Instance, profile Profile, held []wireguardkey.Key) (bootstraptoken.Claim, wireguardkey.Key, error) {
	key, found := preferred(held, inst.ID, "")
	if !found {
		key, found = l.restored(ctx, inst.ID)
	}
	if !found {
		var err error
		if key, err = l.keys.Choose(ctx, inst.ID, profile.Keys, nil); err != nil {
			return bootstraptoken.Claim{}, key, err
		}
	}
	claim, created, err := l.tokens.Create(ctx, bootstraptoken.Request{
		Instance: inst, Profile: profile.Name, KeyName: key.Name(), Settings: profile.Token,
	})
	if err != nil {
		return claim, key, err
	}
	if created {
		l.log.InfoContext(ctx, "bootstrap token created", "instance", inst.ID, "token_id", claim.Token.ID(),
			"key", claim.KeyName, "profile", profile.Name)
	}
	if claim.KeyName == key.Name() {
		return claim, key, nil
	}
	return l.settleKey(ctx, claim, held)
}

// restored returns a key of the instance whose label a hand removed, with the
// label put back.
func (l *Lifecycle) restored(ctx context.Context, id instance.ID) (wireguardkey.Key, bool) {
	for _, name := range l.keys.LostNames(id) {
		if ok, err := l.keys.Restore(ctx, name, id); err != nil || !ok {
			continue
		}
		if key, err := l.keys.Get(ctx, name); err == nil {
			return key, true
		}
	}
	return wireguardkey.Key{}, false
}

// settleKey makes the claim name the key that the instance holds, if it holds
// one, and reads the key that the claim names.
func (l *Lifecycle) settleKey(ctx context.Context, claim bootstraptoken.Claim, held []wireguardkey.Key) (bootstraptoken.Claim, wireguardkey.Key, error) {
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
// token without a key is of no use.
func (l *Lifecycle) label(ctx context.Context, claim bootstraptoken.Claim, key wireguardkey.Key, profile Profile) error {
	id := claim.InstanceID
	tried := map[string]bool{}
	for {
		err := wireguardkey.ErrUnusable
		if key != (wireguardkey.Key{}) {
			err = l.keys.Allocate(ctx, key, id)
		}
		if err == nil {
			return l.confirm(ctx, claim)
		}
		if !errors.Is(err, wireguardkey.ErrTaken) && !errors.Is(err, wireguardkey.ErrUnusable) {
			return err
		}
		tried[claim.KeyName] = true
		if key, err = l.keys.Choose(ctx, id, profile.Keys, tried); err != nil {
			if errors.Is(err, wireguardkey.ErrExhausted) {
				_, revokeErr := l.tokens.RevokeUnchanged(ctx, claim)
				err = errors.Join(err, revokeErr)
			}
			return err
		}
		if claim, err = l.tokens.MoveTo(ctx, claim, key.Name()); err != nil {
			return err
		}
	}
}

// confirm reads the claim once more after its key was labelled. When it is gone
// or names another key, the label goes back, unless the key was handed out.
func (l *Lifecycle) confirm(ctx context.Context, claim bootstraptoken.Claim) error {
	current, err := l.tokens.Current(ctx, claim)
	if err != nil || current {
		return err
	}
	if _, err := l.keys.TakeBack(ctx, claim.KeyName, claim.InstanceID); err != nil {
		return fmt.Errorf("%w; and taking the key back failed: %w", errClaimMoved, err)
	}
	return errClaimMoved
}
