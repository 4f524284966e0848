package nodecertificate

import (
	"context"
	"errors"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

const (
	workers = 4
	// attemptTimeout bounds one attempt, so that a call without an answer does
	// not keep a worker.
	attemptTimeout = 30 * time.Second
	// A failed attempt is made again after minBackoff, doubled each time up to
	// maxBackoff. kubeadm waits for the certificate for five minutes, and the API
	// server deletes a request that stays pending after a day.
	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// item names a request in the queue.
type item struct {
	name   string
	signer signer // for the metrics
}

// Run decides on requests until ctx ends, then returns nil. It is to be called
// once.
func (a *Approver) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, a.queue.ShutDown)()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	group.Wait()
	return nil
}

// next takes one request from the queue. It reports false when there will be no
// more.
func (a *Approver) next(ctx context.Context) bool {
	it, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(it)
	if ctx.Err() != nil { // what is in the queue is handed out even now
		return false
	}
	err := a.attempt(ctx, it.name)
	switch {
	case err == nil:
		a.queue.Forget(it)
		return true
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errConflict): // another replica was faster, most likely
		a.log.DebugContext(ctx, "certificate request changed meanwhile", "request", it.name)
	default:
		a.count(it.signer, failed)
		a.log.WarnContext(ctx, "certificate request not decided, trying again", "request", it.name, "signer", string(it.signer), "err", err)
	}
	a.queue.AddRateLimited(it)
	return true
}

// attempt makes one attempt to decide, and turns a panic into an error.
func (a *Approver) attempt(ctx context.Context, name string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = recovery.Error(r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return a.decide(ctx, name)
}
