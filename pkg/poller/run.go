package poller

import (
	"context"
	"time"
)

// After the handlers' own time (Config.DrainTimeout) a stopping Run gives them
// abortGrace to notice that their context ended, and the courier flushTimeout
// to tell the queue what was decided: with hangUpGrace before, 1 + 15 + 1 + 5 s
// by default, less than the 25 s that a pod is given.
const (
	abortGrace   = time.Second
	flushTimeout = 5 * time.Second
)

// Run receives and handles messages until ctx ends, then gives back what was
// not begun, lets running handlers finish or gives back theirs, tells the queue
// and returns nil. A handler that ignores its context may outlive Run.
func (p *Poller) Run(ctx context.Context) error {
	alive := context.WithoutCancel(ctx)
	handling, stopHandling := context.WithCancel(alive)
	defer stopHandling()
	calling, stopCalling := context.WithCancel(alive)
	defer stopCalling()

	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		p.deliver(calling)
	}()
	p.receive(ctx, handling)
	p.log.Info("stopping: no more messages are received", "in_hand", p.hand.size())
	p.hand.close()
	p.drain(stopHandling)

	defer time.AfterFunc(flushTimeout, stopCalling).Stop()
	<-delivered
	p.discarding.Wait()
	if left := p.hand.size(); left > 0 {
		p.log.Warn("stopped with messages unsettled; they come again", "messages", left)
	}
	return nil
}

// drain returns when no handler runs any more, or when the messages of those
// that still do were given back.
func (p *Poller) drain(stopHandling context.CancelFunc) {
	if within(p.hand.idle, p.cfg.DrainTimeout) {
		stopHandling()
		return
	}
	stopHandling()
	if within(p.hand.idle, abortGrace) {
		return
	}
	p.log.Warn("handlers ignore that their context ended; their messages are given back")
	p.hand.abandon()
}

// within reports whether done was closed before d was over.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
