package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// reconcileWorkers is how many instances one pass works on at a time; the
// client's own rate limit is the bound that matters.
const reconcileWorkers = 8

// Reconcile makes one pass: it compares EC2 with the cluster in both directions
// and repairs what differs. What fails is logged and left to the next pass.
func (l *Lifecycle) Reconcile(ctx context.Context) {
	start := time.Now()
	claims, err := l.claimsByInstance(ctx)
	if err != nil {
		l.log.ErrorContext(ctx, "reconcile pass given up", "err", err)
		return
	}
	living, err := l.matching(ctx)
	if err != nil { // without the living nothing is admitted, but the dead are still found
		l.log.ErrorContext(ctx, "matching instances not listed", "err", err)
	}
	var work errgroup.Group
	work.SetLimit(reconcileWorkers)
	do := func(id instance.ID, f func() error) {
		work.Go(func() error {
			if err := protect(f); err != nil && ctx.Err() == nil {
				l.log.Log(ctx, levelOf(err), "instance not reconciled", "instance", id, "err", err)
			}
			return nil
		})
	}
	for id, m := range living {
		do(id, func() error { return l.reconcileLiving(ctx, m.instance, m.profile, claims[id]) })
	}
	l.reconcileRecorded(ctx, claims, living, do)
	_ = work.Wait() // the functions log their errors
	l.log.DebugContext(ctx, "reconcile pass done", "matching", len(living), "tokens", len(claims), "took", time.Since(start))
}

// levelOf is low for what every pass meets again until it changes by itself.
func levelOf(err error) slog.Level {
	var young *tooYoung
	var waits *exhausted
	if errors.As(err, &young) || errors.As(err, &waits) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (l *Lifecycle) claimsByInstance(ctx context.Context) (map[instance.ID][]bootstraptoken.Claim, error) {
	all, err := l.tokens.All(ctx)
	if err != nil {
		return nil, err
	}
	claims := map[instance.ID][]bootstraptoken.Claim{}
	for _, claim := range all {
		claims[claim.InstanceID] = append(claims[claim.InstanceID], claim)
	}
	return claims, nil
}

type match struct {
	instance instance.Instance
	profile  Profile
}

// matching returns the pending and running instances that match a profile, each
// with the first that it matches.
func (l *Lifecycle) matching(ctx context.Context) (map[instance.ID]match, error) {
	found := map[instance.ID]match{}
	for _, profile := range *l.profiles.Load() {
		instances, err := l.instances.Matching(ctx, profile.Selector)
		if err != nil {
			return nil, fmt.Errorf("list instances of profile %s: %w", profile.Name, err)
		}
		for _, inst := range instances {
			l.unbury(ctx, inst)
			if _, earlier := found[inst.ID]; !earlier && !l.buried(inst.ID) {
				found[inst.ID] = match{inst, profile}
			}
		}
	}
	return found, nil
}

// reconcileRecorded looks at the instances that the cluster has a record of and
// that are not among the living that match.
func (l *Lifecycle) reconcileRecorded(ctx context.Context, claims map[instance.ID][]bootstraptoken.Claim,
	living map[instance.ID]match, do func(instance.ID, func() error),
) {
	recorded := map[instance.ID]bool{}
	for id := range claims {
		recorded[id] = true
	}
	for _, id := range append(l.keys.Holders(), l.nodes.Ours()...) {
		recorded[id] = true
	}
	var ids []instance.ID
	for id := range recorded {
		if _, alive := living[id]; alive {
			l.strikes.forget(id)
		} else {
			ids = append(ids, id)
		}
	}
	// What else has a Node in EC2 is looked up, too: one of ours that is dead may
	// have come back, without its label.
	var others []instance.ID
	for _, id := range l.nodes.All() {
		if _, alive := living[id]; !alive && !recorded[id] {
			others = append(others, id)
		}
	}
	if len(ids)+len(others) == 0 {
		return
	}
	known, err := l.instances.Instances(ctx, slices.Concat(ids, others))
	if err != nil {
		l.log.ErrorContext(ctx, "recorded instances not looked up", "err", err)
		return
	}
	l.strikes.keep(func(id instance.ID) bool { // what ends a row elsewhere ends it here
		_, isKnown := known[id]
		return recorded[id] && !isKnown
	})
	for _, id := range ids {
		inst, isKnown := known[id]
		if !isKnown {
			do(id, func() error { return l.reconcileMissing(ctx, id) })
			continue
		}
		l.strikes.forget(id)
		do(id, func() error { return l.reconcileKnown(ctx, inst, claims[id]) })
	}
	for _, id := range others {
		if inst, isKnown := known[id]; isKnown && inst.State == instance.Terminated {
			do(id, func() error { return l.deleteReturned(ctx, inst) })
		}
	}
}

// deleteReturned deletes the Node of a dead instance that was ours by its tags:
// whoever has its certificate can register it again.
func (l *Lifecycle) deleteReturned(ctx context.Context, inst instance.Instance) error {
	if _, ours := l.ProfileOf(inst.Tags); !ours {
		return nil
	}
	deleted, err := l.nodes.Delete(ctx, inst.ID)
	if deleted {
		l.log.WarnContext(ctx, "the node of a dead instance was there again and is deleted", "instance", inst.ID)
		l.corrected(ctx, corrRetired, inst.ID)
	}
	return err
}
