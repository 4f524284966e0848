package lifecycle

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
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
			l.Reconcile(ctx)
			// Replicas that started together should not stay in step.
			timer.Reset(l.cfg.Interval - rand.N(l.cfg.Interval/10+1)) //nolint:gosec // no secret
		}
	}
}

func (l *Lifecycle) wakeLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.keys.Freed():
			l.wake(ctx)
		}
	}
}

// wake admits waiting instances, the longest waiting first, until no key is
// free.
func (l *Lifecycle) wake(ctx context.Context) {
	for _, id := range l.waiting.list() {
		inst, err := l.instances.Instance(ctx, id)
		if err != nil {
			l.log.WarnContext(ctx, "waiting instance not looked up", "instance", id, "err", err)
			continue
		}
		if !inst.State.Starting() || l.buried(id) {
			l.waiting.remove(id)
			continue
		}
		result, err := l.admitMatching(ctx, inst)
		switch {
		case err == nil:
			l.waiting.remove(id)
			l.log.InfoContext(ctx, "waiting instance settled", "instance", id, "outcome", result)
		case errors.Is(err, wireguardkey.ErrExhausted):
			return
		case ctx.Err() != nil:
			return
		default:
			l.log.WarnContext(ctx, "waiting instance not admitted", "instance", id, "err", err)
		}
	}
}

// followNodes ends the join of every instance whose node becomes Ready.
func (l *Lifecycle) followNodes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-l.nodes.BecameReady():
			if err := l.finishJoin(ctx, id); err != nil && ctx.Err() == nil {
				l.log.WarnContext(ctx, "token of a joined instance not revoked", "instance", id, "err", err)
			}
		}
	}
}

// finishJoin revokes the token of an instance whose node is Ready: it is of no
// more use to the instance, only to a thief.
func (l *Lifecycle) finishJoin(ctx context.Context, id instance.ID) error {
	found, joined := l.nodes.Find(id)
	if !joined || !found.Ready() {
		return nil
	}
	claims, err := l.tokens.FindAll(ctx, id)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		revoked, err := l.tokens.Revoke(ctx, claim)
		if err != nil {
			return err
		}
		if revoked {
			l.joined(ctx, claim, found.ReadySince)
		}
	}
	return nil
}

func (l *Lifecycle) joined(ctx context.Context, claim bootstraptoken.Claim, readySince time.Time) {
	took := readySince.Sub(claim.Created)
	if took > 0 { // a node that was Ready before the claim did not join by it
		l.metrics.join.Observe(took.Seconds())
	}
	l.log.InfoContext(ctx, "instance joined, bootstrap token revoked", "instance", claim.InstanceID,
		"token_id", claim.Token.ID(), "join_time", took)
}
