package poller

import (
	"errors"
	"slices"
	"time"
)

// verdict is what a pass means for its messages.
type verdict struct {
	handled bool          // delete them
	atOnce  bool          // else: show them again at once, it was our shutdown
	atLeast time.Duration // else: show them again no sooner
}

func verdictOn(err error, stopping bool) verdict {
	if err == nil {
		return verdict{handled: true}
	}
	v := verdict{atOnce: stopping}
	var later interface{ RetryAfter() time.Duration }
	if errors.As(err, &later) {
		v.atLeast = later.RetryAfter()
	}
	return v
}

// end settles the message of a pass and its duplicates in the same way, and
// lets the lane go on. It returns how many duplicates there were, and how soon
// the message of a failed pass is seen again.
func (h *inHand) end(s *pass, v verdict) (duplicates int, retryIn time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := s.lane
	s.entry.running, l.running = false, false
	retryIn = h.judge(s.entry, v)
	l.waiting = slices.DeleteFunc(l.waiting, func(e *entry) bool {
		if !s.answersFor(e) {
			return false
		}
		h.judge(e, v)
		duplicates++
		return true
	})
	if len(l.waiting) == 0 {
		delete(h.lanes, l.instance)
	}
	h.makeReady(l)
	return duplicates, retryIn
}

func (h *inHand) judge(e *entry, v verdict) time.Duration {
	if v.handled {
		h.settle(e, remove, 0)
		return 0
	}
	if v.atOnce {
		h.settle(e, delay, 0)
		return 0
	}
	d := max(v.atLeast, h.backoff.after(e.message.ReceiveCount))
	h.settle(e, delay, d)
	return d
}
