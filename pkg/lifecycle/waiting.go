package lifecycle

import (
	"slices"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// waiting is the queue of instances that found no free key, in the order they
// came. It is a hint only: what it forgets, the instance's message or the
// reconcile pass brings again.
type waiting struct {
	mu    sync.Mutex
	queue []waiter
}

type waiter struct {
	id    instance.ID
	since time.Time
}

func (w *waiting) add(id instance.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.queue, func(other waiter) bool { return other.id == id }) {
		w.queue = append(w.queue, waiter{id, time.Now()})
	}
}

func (w *waiting) remove(id instance.ID) { w.removeOlder(id, 0) }

// removeOlder removes the instance if it has waited for that long.
func (w *waiting) removeOlder(id instance.ID, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(other waiter) bool {
		return other.id == id && time.Since(other.since) >= age
	})
}

// list returns those that wait, the longest first.
func (w *waiting) list() []instance.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]instance.ID, len(w.queue))
	for i, waiter := range w.queue {
		ids[i] = waiter.id
	}
	return ids
}
