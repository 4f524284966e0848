package poller

import (
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// Bounds on what is in hand. An instance whose pass takes long fills its lane
// and no more, so lanes alone never use up the room (17 of 20 a worker) while a
// worker is free; what they leave is for messages about to be settled.
const (
	perWorker   = 20 // messages in hand for each worker
	perInstance = 16 // of them, waiting behind a running pass
	perReceive  = 10 // what SQS hands out at most
)

// inHand holds every message that was received and is not settled. All fields
// of it, of its entries and of its lanes are guarded by mu, which is never held
// across a call to anything else.
type inHand struct {
	concurrency int
	visibility  time.Duration
	backoff     backoffRange

	roomy chan struct{} // has an item when there may be room again
	due   chan struct{} // has an item when a wish may have come due
	idle  chan struct{} // closed when closed is set and no pass runs

	mu      sync.Mutex
	entries map[string]*entry // by message id
	lanes   map[instance.ID]*lane
	ready   []*lane // lanes whose turn it is, first come first served
	running int     // passes
	calls   [wishes]int
	closed  bool
}

func newInHand(cfg Config) *inHand {
	return &inHand{
		concurrency: cfg.Concurrency,
		visibility:  cfg.VisibilityTimeout,
		backoff:     backoffRange{cfg.MinBackoff, max(cfg.MinBackoff, cfg.MaxBackoff)},
		roomy:       make(chan struct{}, 1),
		due:         make(chan struct{}, 1),
		idle:        make(chan struct{}),
		entries:     map[string]*entry{},
		lanes:       map[instance.ID]*lane{},
	}
}

// room is how many messages may be received now: none while every worker is
// busy, since others could handle them sooner.
func (h *inHand) room() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.running >= h.concurrency {
		return 0
	}
	return max(0, min(perReceive, perWorker*h.concurrency-len(h.entries)))
}

func (h *inHand) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries)
}

// add takes m in hand, or, when it is there already, keeps the new receipt
// handle and returns false.
func (h *inHand) add(m sqsqueue.Message) (e *entry, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e = h.entries[m.ID]; e != nil {
		h.renew(e, m)
		return e, false
	}
	e = &entry{message: m, due: time.Now().Add(h.visibility / 2)}
	h.entries[m.ID] = e
	poke(h.due)
	return e, true
}

// close lets no further pass begin and gives back at once what waits.
func (h *inHand) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.ready = nil
	for _, l := range h.lanes {
		l.waiting = nil
	}
	for _, e := range h.entries {
		if !e.running {
			h.settle(e, delay, 0)
		}
	}
	h.checkIdle()
	poke(h.due)
}

// abandon gives back at once what is still being handled.
func (h *inHand) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		h.settle(e, delay, 0)
	}
}

func (h *inHand) checkIdle() {
	if h.closed && h.running == 0 {
		close(h.idle)
	}
}

// poke leaves an item in c, whose reader then looks for itself.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
