package poller

import (
	"slices"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

const (
	perBatch = 10 // SQS's limit on one call
	maxCalls = 4  // at once for one wish, so that slow ones hold up no others
	maxTries = 5  // of a final wish, some 3 s and five calls; then it is left to the visibility timeout
)

// idleWait is how long the courier sleeps when nothing will come due by itself.
const idleWait = time.Hour

func (w wish) String() string { return [...]string{"extend", "delete", "delay"}[w] }

// batch is one call: messages about which the same is wished.
type batch struct {
	wish    wish
	at      time.Time
	parcels []parcel
}

// parcel is one entry of a batch, as it was when the call was made.
type parcel struct {
	entry    *entry
	message  sqsqueue.Message
	receipts int
	delay    time.Duration
}

func (b batch) messages() []sqsqueue.Message {
	messages := make([]sqsqueue.Message, len(b.parcels))
	for i, c := range b.parcels {
		messages[i] = c.message
	}
	return messages
}

func (b batch) delays() []sqsqueue.Delay {
	delays := make([]sqsqueue.Delay, len(b.parcels))
	for i, c := range b.parcels {
		delays[i] = sqsqueue.Delay{Message: c.message, For: c.delay}
	}
	return delays
}

// dueBatches returns the calls to be made now and the time until it should be
// asked again; finished when nothing is in hand and nothing will be.
func (h *inHand) dueBatches(now time.Time) (batches []batch, wait time.Duration, finished bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range wishes {
		due := h.dueSoon(w, now)
		for h.calls[w] < maxCalls && len(due) > 0 && (len(due) >= perBatch || !due[0].due.After(now)) {
			n := min(perBatch, len(due))
			batches = append(batches, h.takeBatch(w, due[:n], now))
			due = due[n:]
		}
	}
	return batches, h.untilDue(now), h.closed && len(h.entries) == 0
}

// dueSoon returns the entries with wish w that may be told now, most urgent
// first: a call that is made anyway takes along what would soon be due.
func (h *inHand) dueSoon(w wish, now time.Time) []*entry {
	window := linger
	if w == extend {
		window = h.visibility / 8
	}
	var due []*entry
	for _, e := range h.entries {
		if e.wish == w && !e.calling && !e.due.After(now.Add(window)) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return a.due.Compare(b.due) })
	return due
}

func (h *inHand) takeBatch(w wish, entries []*entry, now time.Time) batch {
	b := batch{wish: w, at: now}
	for _, e := range entries {
		e.calling = true
		d := e.delay
		if w == extend {
			d = h.visibility
		}
		b.parcels = append(b.parcels, parcel{e, e.message, e.receipts, d})
	}
	h.calls[w]++
	return b
}

// untilDue leaves out wishes that have all their calls under way: the end of
// one pokes the courier.
func (h *inHand) untilDue(now time.Time) time.Duration {
	wait := idleWait
	for _, e := range h.entries {
		if !e.calling && h.calls[e.wish] < maxCalls {
			wait = min(wait, e.due.Sub(now))
		}
	}
	return wait
}
