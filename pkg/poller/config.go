package poller

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how a Poller works. A zero (or negative) number means the default
// that stands with the field.
type Config struct {
	// Concurrency is how many events are handled at once; 16. It also bounds
	// the messages in hand: twenty for each.
	Concurrency int
	// VisibilityTimeout is how long the queue hides a received message; 60 s.
	// It must be what the Queue asks for. Messages in hand have it renewed when
	// half of it is over.
	VisibilityTimeout time.Duration
	// HandleTimeout ends the context of one call of the Handler; 2 min.
	HandleTimeout time.Duration
	// MinBackoff and MaxBackoff bound the time until a message that could not
	// be handled is seen again; 2 s and 5 min. A RetryAfter may exceed them.
	MinBackoff, MaxBackoff time.Duration
	// MalformedLimit is how often a message that cannot be understood is
	// received before it is deleted, when no redrive policy takes it away; 5.
	MalformedLimit int
	// DrainTimeout is how long running handlers may go on after Run was told
	// to stop; 15 s. Run needs at most 7 s more.
	DrainTimeout time.Duration
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
	// Logger may be nil: slog.Default() then.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	positive(&c.Concurrency, 16)
	positive(&c.VisibilityTimeout, time.Minute)
	positive(&c.HandleTimeout, 2*time.Minute)
	positive(&c.MinBackoff, 2*time.Second)
	positive(&c.MaxBackoff, 5*time.Minute)
	positive(&c.MalformedLimit, 5)
	positive(&c.DrainTimeout, 15*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func positive[T int | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}
