package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Reissued is what Reissue gave an instance. It holds no secret.
type Reissued struct {
	// TokenID is the public part of the new token.
	TokenID string
	// Key is the name of the key Secret that the instance holds.
	Key     string
	Profile string
	// Until is when the endpoint closes again, if the instance has not joined
	// before.
	Until time.Time
}

// reissueAttempts bounds how often Reissue begins again because somebody else
// made a token meanwhile.
const reissueAttempts = 5

var (
	errReissueConflict = errors.New("a token of the instance is made by others again and again: ask once more")
	errEnding          = errors.New("the instance is on its way out")
)

// Reissue replaces the token of a pending or running instance that is ours by a
// new one and opens the endpoint for it, whether or not it has joined before and
// however long ago it was launched. It closes when the instance's node becomes
// Ready, or else after one life of the profile's tokens. The instance keeps the
// key it holds.
func (l *Lifecycle) Reissue(ctx context.Context, id instance.ID) (Reissued, error) {
	inst, profile, err := l.reissuable(ctx, id)
	if err != nil {
		return Reissued{}, err
	}
	for range reissueAttempts {
		claim, err := l.replace(ctx, inst, profile)
		switch {
		case errors.Is(err, errClaimMoved), errors.Is(err, bootstraptoken.ErrConflict):
			continue
		case err != nil:
			return Reissued{}, err
		}
		// Its end may have come meanwhile, and have been handled before our writes.
		// An error is no evidence of it.
		if now, err := l.instances.Instance(ctx, id); l.buried(id) || (err == nil && now.State.Ending()) {
			_, err := l.close(ctx, id)
			return Reissued{}, errors.Join(errEnding, err)
		}
		l.log.InfoContext(ctx, "bootstrap token reissued", "instance", id, "token_id", claim.Token.ID(), "until", claim.ReissuedUntil)
		return Reissued{TokenID: claim.Token.ID(), Key: claim.KeyName, Profile: profile.Name, Until: claim.ReissuedUntil}, nil
	}
	return Reissued{}, errReissueConflict
}

// reissuable returns the instance and its profile, or why it cannot join.
func (l *Lifecycle) reissuable(ctx context.Context, id instance.ID) (instance.Instance, Profile, error) {
	inst, err := l.instances.Instance(ctx, id)
	if err != nil {
		return inst, Profile{}, fmt.Errorf("look the instance up: %w", err)
	}
	if !inst.State.Starting() {
		return inst, Profile{}, fmt.Errorf("the instance is %s: only one that is pending or running can join", inst.State)
	}
	if l.buried(id) {
		return inst, Profile{}, errEnding
	}
	profile, matches, err := l.profileFor(inst)
	if err != nil {
		return inst, profile, err
	}
	if !matches {
		return inst, profile, errors.New("the instance's tags match no profile, so it is not ours")
	}
	return inst, profile, nil
}

// replace revokes what tokens the instance has and makes a new one, with the key
// that it holds or else a free one. errClaimMoved when another replica's claim
// was in the way.
func (l *Lifecycle) replace(ctx context.Context, inst instance.Instance, profile Profile) (bootstraptoken.Claim, error) {
	claims, err := l.tokens.FindAll(ctx, inst.ID)
	if err != nil {
		return bootstraptoken.Claim{}, err
	}
	for _, claim := range claims {
		if _, err := l.tokens.Revoke(ctx, claim); err != nil {
			return bootstraptoken.Claim{}, err
		}
	}
	// Labels that were lost first: a pass may be putting one back just now, and
	// what was handed out must be found.
	if _, _, err := l.restored(ctx, inst.ID); err != nil {
		return bootstraptoken.Claim{}, err
	}
	held, err := l.keys.Held(ctx, inst.ID)
	if err != nil {
		return bootstraptoken.Claim{}, err
	}
	key, err := l.keyFor(ctx, inst.ID, held, profile)
	if err != nil {
		return bootstraptoken.Claim{}, err
	}
	found, _ := l.nodes.Find(inst.ID)
	claim, created, err := l.tokens.Create(ctx, bootstraptoken.Request{
		Instance: inst, Profile: profile.Name, KeyName: key.Name(), Settings: profile.Token,
		Reissue: true, ReadyNode: found.Incarnation,
	})
	if err != nil {
		return bootstraptoken.Claim{}, err
	}
	if !created {
		return bootstraptoken.Claim{}, errClaimMoved
	}
	if claim, err = l.label(ctx, claim, key, profile); err != nil {
		return claim, err
	}
	if after, _ := l.nodes.Find(inst.ID); closes(after, claim.ReadyNode, true) { // it became Ready just now
		return claim, errClaimMoved
	}
	return claim, nil
}
