package lifecycle

import (
	"slices"
	"sync"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// waiting is the queue of instances that found no free key, in the order they
// came. It is a hint only: what it forgets, the instance's message or the
// reconcile pass brings again.
type waiting struct {
	mu  sync.Mutex
	ids []instance.ID
}

func (w *waiting) add(id instance.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.ids, id) {
		w.ids = append(w.ids, id)
	}
}

func (w *waiting) remove(id instance.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = slices.DeleteFunc(w.ids, func(other instance.ID) bool { return other == id })
}

// list returns those that wait, the longest first.
func (w *waiting) list() []instance.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids)
}
