package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Results of Handle: words for a log line and a metric.
const (
	resultAdmitted = "admitted" // the instance holds a key and a token
	resultRetired  = "retired"  // what the instance held was taken back
	resultClosed   = "closed"   // its token was revoked; the key stays until it is dead
	resultJoined   = "joined"   // its node is there already
	resultNotOurs  = "not_ours" // no profile matches, or nothing of ours was with it
	resultGone     = "gone"     // the instance will not run again, or is stopped
	resultIgnored  = "ignored"  // the state asks for nothing
)

// Handle does what a state change asks for. It may be repeated at any time. A
// nil error means that there is nothing left to do; any other, that the event
// must come again.
func (l *Lifecycle) Handle(ctx context.Context, e ec2event.Event) (string, error) {
	switch e.State {
	case instance.Pending, instance.Running:
		return l.started(ctx, e)
	case instance.ShuttingDown:
		l.bury(e.InstanceID, e.State)
		return l.close(ctx, e.InstanceID)
	case instance.Terminated:
		l.bury(e.InstanceID, e.State)
		return l.retire(ctx, e.InstanceID)
	default: // stopping, stopped: the instance may come back, with its key
		return resultIgnored, nil
	}
}

// started looks at an instance that is said to be starting and admits it if it
// is ours.
func (l *Lifecycle) started(ctx context.Context, e ec2event.Event) (string, error) {
	id := e.InstanceID
	if l.buried(id) {
		return resultGone, nil
	}
	inst, err := l.instances.Instance(ctx, id)
	switch {
	case errors.Is(err, instance.ErrNotFound) && l.old(e.Time):
		l.waiting.remove(id)
		return resultGone, nil
	case errors.Is(err, instance.ErrNotFound):
		return "", &tooYoung{err}
	case err != nil:
		return "", fmt.Errorf("look the instance up: %w", err)
	}
	switch inst.State {
	case instance.ShuttingDown:
		l.bury(id, inst.State)
		return l.close(ctx, id)
	case instance.Terminated:
		l.bury(id, inst.State)
		return l.retire(ctx, id)
	case instance.Stopping, instance.Stopped:
		if young(e.Time) { // EC2 may still show the state before the start
			return "", &tooYoung{fmt.Errorf("EC2 still says %s", inst.State)}
		}
		l.waiting.remove(id)
		return resultGone, nil
	}
	return l.admitMatching(ctx, inst)
}

// admitMatching admits a starting instance if a profile matches it.
func (l *Lifecycle) admitMatching(ctx context.Context, inst instance.Instance) (string, error) {
	profile, matches, err := l.profileFor(inst)
	if err != nil {
		return "", err
	}
	if !matches {
		return resultNotOurs, nil
	}
	if _, joined := l.nodes.Find(inst.ID); joined {
		return resultJoined, nil
	}
	err = l.admit(ctx, inst, profile)
	switch {
	case errors.Is(err, errJoinedBefore):
		return resultJoined, nil
	case err != nil:
		return "", err
	}
	return resultAdmitted, nil
}

// profileFor returns the first profile that matches the instance, once EC2 shows
// its tags.
func (l *Lifecycle) profileFor(inst instance.Instance) (Profile, bool, error) {
	// Without its tags an instance might match a profile that asks for the
	// absence of one, a later profile than its own, or none at all, only because
	// it is so young.
	if len(inst.Tags) == 0 && young(inst.LaunchTime) && !l.takesAll() {
		return Profile{}, false, &tooYoung{errors.New("EC2 shows no tags yet")}
	}
	profile, matches := l.ProfileOf(inst.Tags)
	return profile, matches, nil
}

// old reports whether an instance that EC2 does not know had time enough to
// become known. A zero time is never old.
func (l *Lifecycle) old(t time.Time) bool { return !t.IsZero() && time.Since(t) > l.cfg.GoneGrace }

// young reports whether EC2 may not know everything of an instance yet that was
// launched, or announced, at t.
func young(t time.Time) bool { return time.Since(t) < youth }
