package nodecertificate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

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
	// One requestor's requests are looked at so often a second, after so many at
	// once: a token or a certificate lets its bearer make requests without end,
	// and those of others must not wait behind them.
	requestorRate  = 2
	requestorBurst = 20
	requestorCount = 4096
	requestorLife  = time.Hour
	// loudAttempts is how many failed attempts at one request are worth a warning.
	loudAttempts = 3
)

// item names a request in the queue.
type item struct {
	name      string
	signer    signer // for the metrics
	requestor string
	// admitted says that it has waited for its requestor's turn.
	admitted bool
}

// turn returns how long the requestor's next request has to wait.
func (a *Approver) turn(requestor string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	limiter, known := a.limiters.Get(requestor)
	if !known {
		limiter = rate.NewLimiter(requestorRate, requestorBurst)
	}
	a.limiters.Add(requestor, limiter, requestorLife)
	return limiter.(*rate.Limiter).Reserve().Delay()
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
	if !it.admitted {
		it := it
		it.admitted = true
		if wait := a.turn(it.requestor); wait > 0 {
			a.queue.AddAfter(it, wait)
			return true
		}
	}
	again := it
	again.admitted = false
	err := a.attempt(ctx, it.name)
	switch {
	case err == nil:
		a.queue.Forget(again)
		return true
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errConflict): // another replica was faster, most likely
		a.log.DebugContext(ctx, "certificate request changed meanwhile", "request", it.name)
	default:
		a.count(it.signer, failed)
		level := slog.LevelWarn
		if a.queue.NumRequeues(again) >= loudAttempts {
			level = slog.LevelDebug
		}
		a.log.Log(ctx, level, "certificate request not decided, trying again", "request", it.name, "signer", string(it.signer), "err", err)
	}
	a.queue.AddRateLimited(again)
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
