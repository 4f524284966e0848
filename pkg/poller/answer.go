package poller

import "time"

// answered takes the queue's answer to b; failed holds message ids. It returns
// the entries that left the hand, settled or given up.
func (h *inHand) answered(b batch, failed map[string]bool) (settled, givenUp []*entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[b.wish]--
	for _, c := range b.parcels {
		e := c.entry
		e.calling = false
		switch {
		case e.wish != b.wish || e.receipts != c.receipts:
			// Wished otherwise or received again meanwhile: the answer is about
			// what is no longer so, and due is set for what now is.
		case failed[e.message.ID]:
			if h.retry(e) {
				givenUp = append(givenUp, e)
			}
		case b.wish == extend:
			e.tries, e.due = 0, b.at.Add(h.visibility/2)
		default:
			h.leave(e)
			settled = append(settled, e)
		}
	}
	poke(h.due)
	return settled, givenUp
}

// retry plans to tell the queue again, or gives e up and returns true. A message
// in work is never given up: it is extended as long as it takes.
func (h *inHand) retry(e *entry) (givenUp bool) {
	e.tries++
	if e.wish == extend {
		e.due = time.Now().Add(h.visibility / 8)
		return false
	}
	if e.tries >= maxTries {
		h.leave(e)
		return true
	}
	e.due = time.Now().Add(100 * time.Millisecond << e.tries)
	return false
}

func (h *inHand) leave(e *entry) {
	delete(h.entries, e.message.ID)
	poke(h.roomy)
}
