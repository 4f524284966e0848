package lifecycle

import (
	"context"
	"errors"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// reconcileLiving sees to it that a starting instance that matches has exactly
// what it should. The claims are those of the pass's beginning.
func (l *Lifecycle) reconcileLiving(ctx context.Context, inst instance.Instance, profile Profile, claims []bootstraptoken.Claim) error {
	id := inst.ID
	if err := l.restoreLabels(ctx, id); err != nil {
		return err
	}
	if err := l.releaseSurplus(ctx, id, claims); err != nil {
		return err
	}
	found, joined := l.nodes.Find(id)
	if len(claims) == 1 && claims[0].Reissued(time.Now()) && !closes(found, claims[0].ReadyNode, true) && !l.complete(inst, claims) {
		// Whatever the rest of this says of instances that joined or are old.
		if err := l.admit(ctx, inst, profile); err != nil && !errors.Is(err, errJoinedBefore) {
			return err
		}
	}
	switch {
	case joined && found.Ready():
		return l.keepJoined(ctx, inst, profile, claims)
	case joined:
		return nil
	case l.keys.Joined(id): // only an operator's reissue opens it again, for as long as that lasts
		return l.revokeUnasked(ctx, claims)
	}
	past, err := l.pastCutoff(ctx, inst, claims)
	if err != nil {
		return err
	}
	if past {
		return l.revokeExpired(ctx, claims)
	}
	if l.complete(inst, claims) {
		return l.renew(ctx, claims[0], profile)
	}
	result, err := l.admitMatching(ctx, inst)
	if result == resultAdmitted {
		l.corrected(ctx, corrAdmitted, id)
	}
	return err
}

// keepJoined sees to it that an instance whose node is Ready has what it should,
// and no token.
func (l *Lifecycle) keepJoined(ctx context.Context, inst instance.Instance, profile Profile, claims []bootstraptoken.Claim) error {
	errs := []error{l.restrict(ctx, profile, GrantOf(inst, profile))}
	if !l.keys.Joined(inst.ID) && len(l.keys.HeldNames(inst.ID)) > 0 {
		errs = append(errs, l.markJoined(ctx, inst.ID))
	}
	if len(claims) > 0 {
		errs = append(errs, l.finishJoin(ctx, inst.ID))
	}
	return errors.Join(errs...)
}

// complete reports whether the instance has one claim that has not expired and
// lacks nothing, and the key that it names, as far as the cache knows.
func (l *Lifecycle) complete(inst instance.Instance, claims []bootstraptoken.Claim) bool {
	held := l.keys.HeldNames(inst.ID)
	return len(claims) == 1 && len(held) == 1 && held[0] == claims[0].KeyName &&
		!claims[0].Expired(time.Now()) && !claims[0].Lacks(inst)
}

// renew lets the token of an instance that has not joined live on before it
// expires: when half of its life, or less than two passes, are left.
func (l *Lifecycle) renew(ctx context.Context, claim bootstraptoken.Claim, profile Profile) error {
	left := time.Until(claim.Expires)
	if left > profile.Token.TTL/2 && left > 2*l.cfg.Interval {
		return nil
	}
	_, err := l.tokens.Renew(ctx, claim, profile.Token.TTL)
	if errors.Is(err, bootstraptoken.ErrConflict) { // by another replica, perhaps; the next pass looks again
		return nil
	}
	if err != nil {
		return err
	}
	l.corrected(ctx, corrRenewed, claim.InstanceID)
	return nil
}

// pastCutoff reports whether an instance was launched so long ago that it will
// not be given another token. One that was never given anything is.
func (l *Lifecycle) pastCutoff(ctx context.Context, inst instance.Instance, claims []bootstraptoken.Claim) (bool, error) {
	if time.Since(inst.LaunchTime) <= l.cfg.TokenRenewalCutoff {
		return false, nil
	}
	if len(claims) > 0 {
		return true, nil
	}
	held, err := l.keys.Held(ctx, inst.ID)
	return len(held) > 0, err
}

// revokeExpired deletes the expired tokens of an instance that did not join in
// time.
func (l *Lifecycle) revokeExpired(ctx context.Context, claims []bootstraptoken.Claim) error {
	for _, claim := range claims {
		if !claim.Expired(time.Now()) {
			continue
		}
		revoked, err := l.tokens.RevokeUnchanged(ctx, claim)
		if err != nil {
			return err
		}
		if revoked {
			l.revoked(ctx, claim)
			l.corrected(ctx, corrExpired, claim.InstanceID)
		}
	}
	return nil
}

// revokeUnasked deletes the tokens of an instance that has joined before, but for
// what an operator asked for and that is in force. An admission that was under
// way when it joined may have left one.
func (l *Lifecycle) revokeUnasked(ctx context.Context, claims []bootstraptoken.Claim) error {
	for _, claim := range claims {
		if claim.Reissued(time.Now()) {
			continue
		}
		revoked, err := l.tokens.RevokeUnchanged(ctx, claim)
		if err != nil {
			return err
		}
		if revoked {
			l.corrected(ctx, corrExpired, claim.InstanceID)
		}
	}
	return nil
}

// restoreLabels puts back the labels of the instance's keys that a hand
// removed.
func (l *Lifecycle) restoreLabels(ctx context.Context, id instance.ID) error {
	for _, name := range l.keys.LostNames(id) {
		restored, err := l.keys.Restore(ctx, name, id)
		if err != nil {
			return err
		}
		if restored {
			l.corrected(ctx, corrLabelRestored, id)
		}
	}
	return nil
}

// releaseSurplus leaves a living instance one token and one key: the one that
// was handed out, else the one that the token names, else the first. A key that
// was handed out stays, surplus or not, until the instance is dead.
func (l *Lifecycle) releaseSurplus(ctx context.Context, id instance.ID, claims []bootstraptoken.Claim) error {
	if len(claims) < 2 && len(l.keys.HeldNames(id)) < 2 {
		return nil
	}
	held, err := l.keys.Held(ctx, id)
	if err != nil {
		return err
	}
	claims, err = l.tokens.FindAll(ctx, id)
	if err != nil {
		return err
	}
	claimed := ""
	if len(claims) > 0 {
		claimed = claims[0].KeyName
	}
	keep, found := preferred(held, id, claimed)
	if err := l.revokeSurplus(ctx, claims, keep, found); err != nil {
		return err
	}
	for _, key := range held {
		if key.Name() == keep.Name() {
			continue
		}
		released, err := l.keys.TakeBack(ctx, key.Name(), id)
		if err != nil {
			return err
		}
		if released {
			l.corrected(ctx, corrSurplusKey, id)
		}
	}
	return nil
}

// revokeSurplus leaves one claim: the one that names the kept key, else the
// first.
func (l *Lifecycle) revokeSurplus(ctx context.Context, claims []bootstraptoken.Claim, keep wireguardkey.Key, hasKey bool) error {
	stays := 0
	for i, claim := range claims {
		if hasKey && claim.KeyName == keep.Name() {
			stays = i
		}
	}
	for i, claim := range claims {
		if i == stays {
			continue
		}
		revoked, err := l.tokens.RevokeUnchanged(ctx, claim)
		if err != nil {
			return err
		}
		if revoked {
			l.corrected(ctx, corrSurplusToken, claim.InstanceID)
		}
	}
	return nil
}

func (l *Lifecycle) corrected(ctx context.Context, kind string, id instance.ID) {
	l.metrics.corrections.WithLabelValues(kind).Inc()
	l.log.InfoContext(ctx, "reconcile corrected", "kind", kind, "instance", id)
}
