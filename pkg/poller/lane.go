package poller

import (
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// lane is the messages of one instance, oldest first. It exists while one of
// them waits or is handled.
type lane struct {
	instance instance.ID
	waiting  []*entry
	running  bool
	ready    bool // stands in inHand.ready
}

// pass is one call of the Handler, for one message and for the duplicates that
// wait behind it.
type pass struct {
	entry   *entry
	lane    *lane
	event   ec2event.Event
	message sqsqueue.Message // as it was when the pass began
	// newest is the time of the newest event that was in hand when the pass
	// began. Whatever happened until then the pass can have seen; a later event
	// of the same state needs a pass of its own.
	newest time.Time
}

// enqueue lets e wait its turn in the lane of its instance; false when too many
// wait there.
func (h *inHand) enqueue(e *entry, event ec2event.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lanes[event.InstanceID]
	if l == nil {
		l = &lane{instance: event.InstanceID}
		h.lanes[event.InstanceID] = l
	}
	if len(l.waiting) >= perInstance {
		return false
	}
	e.event = event
	l.waiting = append(l.waiting, e)
	h.makeReady(l)
	return true
}

// begin starts the next pass; nil when no lane is ready or no worker free.
func (h *inHand) begin() *pass {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beginLocked()
}

// next ends the worker's turn and starts another, if there is one.
func (h *inHand) next() *pass {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.checkIdle()
	poke(h.roomy)
	return h.beginLocked()
}

func (h *inHand) beginLocked() *pass {
	if h.running >= h.concurrency || len(h.ready) == 0 {
		return nil
	}
	l := h.ready[0]
	h.ready = h.ready[1:]
	e := l.waiting[0]
	newest := e.event.Time
	for _, w := range l.waiting {
		if w.event.State == e.event.State && w.event.Time.After(newest) {
			newest = w.event.Time
		}
	}
	l.waiting = l.waiting[1:]
	l.ready, l.running, e.running = false, true, true
	h.running++
	return &pass{entry: e, lane: l, event: e.event, message: e.message, newest: newest}
}

func (h *inHand) makeReady(l *lane) {
	if !l.running && !l.ready && len(l.waiting) > 0 {
		l.ready = true
		h.ready = append(h.ready, l)
	}
}

// answersFor reports whether the pass speaks for e too.
func (s *pass) answersFor(e *entry) bool {
	return e.event.State == s.event.State && !e.event.Time.After(s.newest)
}
