package lifecycle

import (
	"context"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// strikesOut is how many passes in a row EC2 must not know an instance before
// it counts as gone.
const strikesOut = 2

// reconcileKnown looks at an instance that the cluster has a record of, that
// EC2 knows, and that is not a living one that matches.
func (l *Lifecycle) reconcileKnown(ctx context.Context, inst instance.Instance, claims []bootstraptoken.Claim) error {
	switch inst.State {
	case instance.Terminated:
		return l.reconcileGone(ctx, inst.ID)
	case instance.ShuttingDown:
		l.bury(inst.ID, inst.State)
		result, err := l.close(ctx, inst.ID)
		if err == nil && result == resultClosed {
			l.corrected(ctx, corrClosed, inst.ID)
		}
		return err
	}
	// It lives. That its tags no longer match, or that it is stopped, takes
	// nothing from it.
	if err := l.restoreLabels(ctx, inst.ID); err != nil {
		return err
	}
	if l.keys.Joined(inst.ID) && len(claims) > 0 {
		if err := l.revokeUnasked(ctx, claims); err != nil {
			return err
		}
	}
	return l.finishJoin(ctx, inst.ID)
}

// reconcileMissing looks at an instance that was not in EC2's answer. That alone
// is no evidence; it counts as gone when EC2 says twice in a row, some time
// apart, that there is no such instance, while no Ready node of it says
// otherwise.
func (l *Lifecycle) reconcileMissing(ctx context.Context, id instance.ID) error {
	unknown, err := l.instances.Unknown(ctx, id)
	if err != nil {
		return err
	}
	if !unknown {
		l.strikes.forget(id)
		return nil
	}
	if found, ok := l.nodes.Find(id); ok && found.Ready() {
		l.strikes.forget(id)
		l.log.WarnContext(ctx, "EC2 does not know the instance of a ready node: are region and account right?",
			"instance", id, "node", found.Name)
		return nil
	}
	st := l.strikes.count(id)
	if st.count < strikesOut || time.Since(st.first) < l.cfg.GoneGrace {
		return nil
	}
	return l.reconcileGone(ctx, id)
}

func (l *Lifecycle) reconcileGone(ctx context.Context, id instance.ID) error {
	l.bury(id, instance.Terminated)
	result, err := l.retire(ctx, id)
	if err == nil && result == resultRetired {
		l.corrected(ctx, corrRetired, id)
	}
	return err
}
