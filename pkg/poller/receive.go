package poller

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// emptyPause is the least time between receives that bring nothing. A long poll
// lasts longer by itself; this is for a queue that answers at once.
const emptyPause = 250 * time.Millisecond

// hangUpGrace is how long a receive may go on after Run was told to stop. A
// queue with messages answers within that; hanging up on it at once would hide
// the messages that it is just handing out for a whole visibility time-out.
const hangUpGrace = time.Second

// receive fetches messages while there is room, until ctx ends. What it starts
// runs with the context handling.
func (p *Poller) receive(ctx, handling context.Context) {
	polling, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hangUpGrace, hangUp) })()

	pauses := receivePauses()
	for ctx.Err() == nil {
		if limit := p.hand.room(); limit > 0 {
			p.receiveOnce(ctx, polling, handling, limit, pauses)
			continue
		}
		select {
		case <-ctx.Done():
		case <-p.hand.roomy:
		}
	}
}

func (p *Poller) receiveOnce(ctx, polling, handling context.Context, limit int, pauses backoff.BackOff) {
	began := time.Now()
	messages, err := p.queue.Receive(polling, limit)
	if err != nil {
		if ctx.Err() != nil {
			return // we hung up ourselves
		}
		pause := pauses.NextBackOff()
		p.log.Warn("receiving failed", "err", err, "retry_in", pause)
		sleep(ctx, pause)
		return
	}
	pauses.Reset()
	p.lastReceive.Store(time.Now().UnixNano())
	p.metrics.received()
	for _, m := range messages {
		p.accept(handling, m)
	}
	if ctx.Err() != nil {
		return // begin nothing any more
	}
	p.startPasses(handling)
	if len(messages) == 0 {
		sleep(ctx, emptyPause-time.Since(began))
	}
}

// receivePauses grow to 30 s (an interval of 20 s, half as much again by
// chance) and never end: the library stops after 15 minutes unless told not to.
func receivePauses() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithMaxInterval(20*time.Second),
		backoff.WithMaxElapsedTime(0),
	)
}

func sleep(ctx context.Context, d time.Duration) {
	if d > 0 {
		within(ctx.Done(), d)
	}
}
