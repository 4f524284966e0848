package poller

import (
	"context"
	"errors"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

var errPanicked = errors.New("handler panicked")

// startPasses gives work to every free worker.
func (p *Poller) startPasses(ctx context.Context) {
	for s := p.hand.begin(); s != nil; s = p.hand.begin() {
		go p.work(ctx, s)
	}
}

// work runs passes, one after another, until none is ready.
func (p *Poller) work(ctx context.Context, s *pass) {
	for ; s != nil; s = p.hand.next() {
		p.runPass(ctx, s)
	}
}

// runPass handles one event; its outcome is logged and counted here only. ctx
// ends only when a shutdown does not wait any longer.
func (p *Poller) runPass(ctx context.Context, s *pass) {
	began := time.Now()
	result, err := p.handle(ctx, s.event)
	took := time.Since(began)
	outcome := outcomeOf(result, err)
	duplicates, retryIn := p.hand.end(s, verdictOn(err, ctx.Err() != nil))

	p.metrics.handled(s.event.State, took)
	p.metrics.count(outcome, 1)
	log := p.log.With("message_id", s.message.ID, "instance", s.event.InstanceID, "state", s.event.State,
		"outcome", outcome, "receive_count", s.message.ReceiveCount, "duplicates", duplicates, "took", took)
	if err != nil {
		p.metrics.count(outcome, duplicates)
		log.Warn("event not handled; message comes again", "err", err, "retry_in", retryIn)
		return
	}
	p.metrics.count(outcomeDuplicate, duplicates)
	log.Info("event handled")
}

// handle calls the Handler and turns a panic into an error.
func (p *Poller) handle(ctx context.Context, event ec2event.Event) (result string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.HandleTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			p.log.Error("handler panicked", "instance", event.InstanceID, "state", event.State, "err", recovery.Error(r))
			err = errPanicked
		}
	}()
	return p.handler.Handle(ctx, event)
}
