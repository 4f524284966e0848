package poller

import (
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// wish is what the queue is to be told about a message next.
type wish int

const (
	extend wish = iota // hide it for another visibility timeout: still in work
	remove             // delete it: nothing is left to do
	delay              // show it again later: not now
	wishes             // how many there are
)

// entry is one message in hand. It begins with the wish extend; remove and
// delay are final and end with the entry leaving. While calling is set the
// queue is being told about the message, and nothing else is told until it has
// answered: so an extension never overtakes a delete or a delay.
type entry struct {
	message  sqsqueue.Message // newest receipt handle, no body
	receipts int              // how often it was received again while in hand
	event    ec2event.Event
	running  bool // its pass runs

	wish    wish
	delay   time.Duration // for the wish delay
	due     time.Time     // when the wish is to be told
	tries   int           // how often telling failed
	calling bool
}

// linger is how long a settled message waits for others to share its call.
const linger = 50 * time.Millisecond

// settle gives e its final wish. The first one stands: it reports false when e
// has one already, as after a shutdown gave it back. The caller holds h.mu.
func (h *inHand) settle(e *entry, w wish, d time.Duration) bool {
	if e.wish != extend {
		return false
	}
	e.wish, e.delay, e.tries = w, d, 0
	e.due = time.Now().Add(linger)
	poke(h.due)
	return true
}

// renew keeps the receipt handle of a message that came again. Its visibility
// timeout has just begun anew. A final wish is told again with the new handle,
// for the old one is worth nothing. The caller holds h.mu.
func (h *inHand) renew(e *entry, m sqsqueue.Message) {
	e.message = m
	e.receipts++
	e.tries = 0
	e.due = time.Now()
	if e.wish == extend {
		e.due = e.due.Add(h.visibility / 2)
	}
	poke(h.due)
}

// delete wants e deleted, an event that asks for nothing.
func (h *inHand) delete(e *entry, event ec2event.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.event = event
	return h.settle(e, remove, 0)
}

// giveBack wants e seen again after d.
func (h *inHand) giveBack(e *entry, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle(e, delay, d)
}
