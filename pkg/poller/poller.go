// Package poller is the loop of the daemon: receive a message, parse it, have
// its event handled, settle it. It alone decides when a message goes: a message
// is deleted after its event was handled, and on no other path but the ones
// listed in accept.go.
//
// Every message received and not yet settled is in hand (inhand.go). What the
// queue is told about it next is its wish (entry.go); the courier (courier.go)
// carries wishes to the queue, never two at a time for one message. Messages of
// one instance stand in a lane (lane.go) and are handled one after another.
package poller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// Queue is where messages come from; *sqsqueue.Queue is one. What Delete and
// ChangeVisibility return as failed is tried again.
type Queue interface {
	Receive(ctx context.Context, limit int) ([]sqsqueue.Message, error)
	Delete(ctx context.Context, messages []sqsqueue.Message) (failed []sqsqueue.Message, err error)
	ChangeVisibility(ctx context.Context, delays []sqsqueue.Delay) (failed []sqsqueue.Delay, err error)
	HasRedrivePolicy(ctx context.Context) (bool, error)
}

// Handler does what an event asks for. A nil error means that nothing is left
// to do and lets the message be deleted; result is then the outcome for the
// metrics, "" is "done". An error keeps the message. Its chain may hold an
// Outcome() string, the word for the metrics instead of "retry", and a
// RetryAfter() time.Duration, the least time until the message comes again.
//
// Handle is called by several goroutines, but for one instance never by two at
// once, and it may be called again for an event it has handled.
type Handler interface {
	Handle(ctx context.Context, event ec2event.Event) (result string, err error)
}

// Poller moves messages from a Queue to a Handler. Run it once.
type Poller struct {
	queue       Queue
	handler     Handler
	cfg         Config
	log         *slog.Logger
	metrics     metrics
	hand        *inHand
	redrive     *redrive
	discarding  sync.WaitGroup
	told        *cache.LRUExpireCache // ids of messages whose reason was logged
	lastReceive atomic.Int64          // Unix nanoseconds; 0: never
}

// New returns a Poller that does nothing until Run.
func New(q Queue, h Handler, cfg Config) *Poller {
	cfg = cfg.withDefaults()
	return &Poller{
		queue:   q,
		handler: h,
		cfg:     cfg,
		log:     cfg.Logger,
		metrics: newMetrics(cfg.Registerer),
		hand:    newInHand(cfg),
		redrive: newRedrive(q),
		told:    cache.NewLRUExpireCache(toldCount),
	}
}

// LastReceive is when the queue last answered a receive, also with nothing;
// zero when it never did. It stands still while every worker is busy, since
// nothing is received then.
func (p *Poller) LastReceive() time.Time {
	if n := p.lastReceive.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
