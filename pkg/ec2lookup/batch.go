package ec2lookup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

// batch is one question about many instances. Once it is asked it takes no
// more ids, so nobody gets an answer that is older than the own question.
type batch struct {
	ids   map[instance.ID]bool
	timer *time.Timer
	// done is closed when found and err are set.
	done  chan struct{}
	found map[instance.ID]instance.Instance
	err   error
}

// Instance returns the instance with this id. Callers that come within the
// linger time share one call, and those with the same id one answer. The error
// wraps instance.ErrNotFound when EC2's answer does not hold the instance,
// which is no evidence that it is gone. ctx ends only the caller's own wait.
func (l *Lookup) Instance(ctx context.Context, id instance.ID) (instance.Instance, error) {
	if err := ctx.Err(); err != nil {
		return instance.Instance{}, fmt.Errorf("look up instance %s: %w", id, err)
	}
	b := l.join(id)
	select {
	case <-b.done:
		return b.answer(id)
	case <-ctx.Done():
		return instance.Instance{}, fmt.Errorf("look up instance %s: %w", id, ctx.Err())
	}
}

// answer is what a finished batch says of one of its ids. An instance that was
// on a page before the one that failed is as good as any.
func (b *batch) answer(id instance.ID) (instance.Instance, error) {
	i, found := b.found[id]
	switch {
	case found:
		i.Tags = maps.Clone(i.Tags) // others may hold the same answer
		return i, nil
	case b.err != nil:
		return instance.Instance{}, fmt.Errorf("look up instance %s: %w", id, b.err)
	}
	return instance.Instance{}, fmt.Errorf("look up instance %s: %w", id, instance.ErrNotFound)
}

// join adds id to the open batch, or to a new one. A full batch is asked at
// once.
func (l *Lookup) join(id instance.ID) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.open
	if b == nil {
		b = &batch{ids: map[instance.ID]bool{}, done: make(chan struct{})}
		b.timer = time.AfterFunc(l.linger, func() {
			if l.close(b) {
				l.ask(b)
			}
		})
		l.open = b
	}
	b.ids[id] = true
	if len(b.ids) >= maxFilterValues {
		l.open = nil
		b.timer.Stop()
		go l.ask(b)
	}
	return b
}

// close takes no more ids into b; false when it was closed already.
func (l *Lookup) close(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != b {
		return false
	}
	l.open = nil
	return true
}

// ask answers b. Its context is its own, for it serves many callers; the
// time-out ends it.
func (l *Lookup) ask(b *batch) {
	defer close(b.done)
	defer func() {
		if r := recover(); r != nil { // in a goroutine of ours: nobody else would catch it
			b.found, b.err = nil, recovery.Error(r)
		}
	}()
	b.found, b.err = l.byIDs(context.Background(), slices.Sorted(maps.Keys(b.ids)))
}
