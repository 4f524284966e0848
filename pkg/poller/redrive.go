package poller

import (
	"context"
	"time"
)

// How long an answer about the redrive policy is believed, and how soon after
// an error it is asked for again.
const (
	redriveValid = 10 * time.Minute
	redriveRetry = 30 * time.Second
)

// redrive remembers whether the queue has a redrive policy.
type redrive struct {
	queue Queue
	turn  chan struct{} // has an item while the queue is asked: one question for all
	has   bool
	err   error
	until time.Time
}

func newRedrive(q Queue) *redrive { return &redrive{queue: q, turn: make(chan struct{}, 1)} }

func (r *redrive) exists(ctx context.Context) (bool, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if time.Now().Before(r.until) {
		return r.has, r.err
	}
	r.has, r.err = r.queue.HasRedrivePolicy(ctx)
	valid := redriveValid
	if r.err != nil {
		valid = redriveRetry
	}
	r.until = time.Now().Add(valid)
	return r.has, r.err
}
