package lifecycle

import (
	"errors"
	"time"
)

// ErrNotAllocated says that the instance holds no key and token: not yet, or
// never. Asking again later may help.
var ErrNotAllocated = errors.New("nothing is allocated to the instance")

// ErrClosed says that the instance may fetch nothing any more: it has joined, or
// it is on its way out.
var ErrClosed = errors.New("the endpoint is closed for the instance: it has joined, or is on its way out")

// The poller reads from these errors which word to count and how long to wait
// at least; see its documentation.

// tooYoung says that EC2 does not know all of the instance yet.
type tooYoung struct{ err error }

func (e *tooYoung) Error() string { return "the instance is too young: " + e.err.Error() }
func (e *tooYoung) Unwrap() error { return e.err }

// Outcome is the word for the metric.
func (e *tooYoung) Outcome() string { return "too_young" }

// exhausted says that the instance waits for a free key.
type exhausted struct{ err error }

// exhaustedDelay is long, because a freed key wakes the instance anyway, and
// each receive brings the message closer to the dead-letter queue.
const exhaustedDelay = 2 * time.Minute

func (e *exhausted) Error() string { return e.err.Error() }
func (e *exhausted) Unwrap() error { return e.err }

// Outcome is the word for the metric.
func (e *exhausted) Outcome() string { return "exhausted" }

// RetryAfter is how long the message should stay away at least.
func (e *exhausted) RetryAfter() time.Duration { return exhaustedDelay }
