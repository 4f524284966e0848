package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// Run makes a reconcile pass at once and every interval, admits waiting
// instances when a key becomes free, and revokes the token of an instance whose
// node became Ready. The informers behind the pool and the nodes must have
// synced. It returns nil when ctx ends.
func (l *Lifecycle) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, loop := range []func(context.Context){l.reconcileLoop, l.wakeLoop, l.followNodes} {
		group.Go(func() error {
			loop(ctx)
			return nil
		})
	}
	return group.Wait()
}

func (l *Lifecycle) reconcileLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			l.guard(ctx, "reconcile pass", func() error {
				l.Reconcile(ctx)
				return nil
			})
			// Replicas that started together should not stay in step.
			timer.Reset(l.cfg.Interval - rand.N(l.cfg.Interval/10+1)) //nolint:gosec // no secret
		}
	}
}

// wakeRetry is the time until waiting instances are woken once more, when it
// did not go well.
const wakeRetry = 5 * time.Second

func (l *Lifecycle) wakeLoop(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.keys.Freed():
		case <-again:
		}
		again = nil
		if !l.guard(ctx, "waking of waiting instances", func() error { return l.wake(ctx) }) {
			again = time.After(wakeRetry)
		}
	}
}

// guard runs f and logs its error, or its panic: none must end the process. It
// reports whether all went well.
func (l *Lifecycle) guard(ctx context.Context, what string, f func() error) (ok bool) {
	err := protect(f)
	if err != nil && ctx.Err() == nil {
		l.log.ErrorContext(ctx, "not done", "what", what, "err", err)
	}
	return err == nil
}

// protect turns a panic of f into an error.
func protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = recovery.Error(r)
		}
	}()
	return f()
}

// wake admits waiting instances, the longest waiting first, until no key that
// they may have is free. An error means that some may be worth another try.
func (l *Lifecycle) wake(ctx context.Context) error {
	ids := l.waiting.list()
	if len(ids) == 0 {
		return nil
	}
	known, err := l.instances.Instances(ctx, ids)
	if err != nil {
		return fmt.Errorf("look waiting instances up: %w", err)
	}
	var errs []error
	exhausted := map[string]bool{} // by profile: each may have another part of the pool
	for _, id := range ids {
		inst, isKnown := known[id]
		if !isKnown { // no evidence of anything; but waiting is only a hint
			l.waiting.removeOlder(id, l.cfg.GoneGrace)
			continue
		}
		if !inst.State.Starting() || l.buried(id) {
			l.waiting.remove(id)
			continue
		}
		profile, _ := l.ProfileOf(inst.Tags)
		if exhausted[profile.Name] {
			continue
		}
		result, err := l.admitMatching(ctx, inst)
		switch {
		case err == nil:
			l.waiting.remove(id)
			l.log.InfoContext(ctx, "waiting instance settled", "instance", id, "outcome", result)
		case errors.Is(err, wireguardkey.ErrExhausted):
			exhausted[profile.Name] = true
		default:
			errs = append(errs, fmt.Errorf("admit %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// followNodes ends the join of every instance whose node becomes Ready.
func (l *Lifecycle) followNodes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-l.nodes.BecameReady():
			l.guard(ctx, "revocation of a joined instance's token", func() error { return l.finishJoin(ctx, id) })
		}
	}
}

// finishJoin gives a Ready node its restrictions and revokes the instance's
// token, which is of no more use to the instance, only to a thief.
func (l *Lifecycle) finishJoin(ctx context.Context, id instance.ID) error {
	found, joined := l.nodes.Find(id)
	if !joined || !found.Ready() {
		return nil
	}
	claims, err := l.tokens.FindAll(ctx, id)
	if err != nil {
		return err
	}
	// Once more: an operator may have asked for a token meanwhile, beside another
	// state of the node.
	if found, joined = l.nodes.Find(id); !joined || !found.Ready() || len(claims) == 0 {
		return nil
	}
	// A failure must not keep the token alive; the reconcile pass comes back.
	errs := []error{l.markJoined(ctx, id)}
	for _, claim := range claims {
		if profile, configured := l.profileNamed(claim.Profile); configured {
			errs = append(errs, l.restrict(ctx, profile, GrantOfClaim(claim)))
		}
		errs = append(errs, l.revokeJoined(ctx, claim, found))
	}
	return errors.Join(errs...)
}

// revokeJoined revokes the token of an instance whose node is Ready. One that an
// operator asked for stays until it lapses, or until the node became Ready by it.
func (l *Lifecycle) revokeJoined(ctx context.Context, claim bootstraptoken.Claim, found node.Node) error {
	reissued := claim.Reissued(time.Now())
	if !closes(found, claim.ReadyNode, reissued) {
		return nil
	}
	if reissued { // the cache may hold the node that was there before
		live, joined, err := l.nodes.FindLive(ctx, claim.InstanceID)
		if err != nil || !joined || !closes(live, claim.ReadyNode, reissued) {
			return err
		}
	}
	revoked, err := l.tokens.Revoke(ctx, claim)
	if err == nil && revoked {
		l.joined(ctx, claim, found.ReadySince)
	}
	return err
}

// markJoined remembers on the instance's keys that its node was Ready, so that a
// node that vanishes does not open the endpoint again.
func (l *Lifecycle) markJoined(ctx context.Context, id instance.ID) error {
	held, err := l.keys.Held(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range held {
		errs = append(errs, l.keys.MarkJoined(ctx, key, id))
	}
	return errors.Join(errs...)
}

func (l *Lifecycle) joined(ctx context.Context, claim bootstraptoken.Claim, readySince time.Time) {
	took := readySince.Sub(claim.Created)
	if took > 0 { // a node that was Ready before the claim did not join by it
		l.metrics.join.Observe(took.Seconds())
	}
	l.log.InfoContext(ctx, "instance joined, bootstrap token revoked", "instance", claim.InstanceID,
		"token_id", claim.Token.ID(), "join_time", took)
}
