package poller

import (
	"context"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// deliver tells the queue what is wished about the messages in hand, as it
// comes due. It ends when ctx does, or when the hand is closed and empty, and
// returns only when no call is under way.
func (p *Poller) deliver(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batches, wait, finished := p.hand.dueBatches(time.Now())
		if finished {
			return
		}
		for _, b := range batches {
			calls.Go(func() { p.deliverOne(ctx, b) })
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.hand.due:
		case <-timer.C:
		}
	}
}

func (p *Poller) deliverOne(ctx context.Context, b batch) {
	failed, err := p.tell(ctx, b)
	if err != nil || len(failed) > 0 {
		p.log.Warn("queue did not take all of a batch", "call", b.wish.String(),
			"messages", len(b.parcels), "failed", len(failed), "err", err)
	}
	left, given := p.hand.answered(b, failed)
	for _, e := range left {
		if b.wish == remove {
			p.metrics.settled(e)
		}
	}
	for _, e := range given {
		p.log.Warn("giving up on settling a message; it comes again after its visibility timeout",
			"message_id", e.message.ID, "call", b.wish.String())
	}
}

// tell makes the call and returns the ids of the messages it failed for.
func (p *Poller) tell(ctx context.Context, b batch) (failed map[string]bool, err error) {
	failed = map[string]bool{}
	if b.wish == remove {
		var rest []sqsqueue.Message
		rest, err = p.queue.Delete(ctx, b.messages())
		for _, m := range rest {
			failed[m.ID] = true
		}
	} else {
		var rest []sqsqueue.Delay
		rest, err = p.queue.ChangeVisibility(ctx, b.delays())
		for _, d := range rest {
			failed[d.Message.ID] = true
		}
	}
	if err != nil && len(failed) == 0 {
		for _, c := range b.parcels {
			failed[c.message.ID] = true
		}
	}
	return failed, err
}
