package lifecycle_test

import (
	"sync"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// truth remembers what was given to whom, and knows what must never be.
type truth struct {
	mu     *sync.Mutex
	gave   map[string][]instance.ID // key → instances that were given it
	has    map[instance.ID]string   // instance → the key that it was given
	marked map[string]instance.ID   // key → living instance that it was seen marked for
	// A hand empties labels: a marked key may lose its own for a while.
	labelsMove bool
	// Labels and claims are lost at once: an instance may come to a second key.
	twoKeys bool
}

func newTruth() truth {
	return truth{mu: new(sync.Mutex), gave: map[string][]instance.ID{}, has: map[instance.ID]string{}, marked: map[string]instance.ID{}}
}

// given notes a grant at the moment of the answer.
func (tr *truth) given(w *world, id instance.ID, g lifecycle.Grant) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	key := keyOf(g.WireGuardConfig)
	for _, other := range tr.gave[key] {
		if other != id && w.ec2.alive(other) {
			w.t.Errorf("key %s was given to %s while %s, which had it before, lives", key, id, other)
		}
	}
	tr.gave[key] = append(tr.gave[key], id)
	if had, before := tr.has[id]; before && had != key && !tr.twoKeys {
		w.t.Errorf("%s was given key %s, and %s before", id, key, had)
	}
	tr.has[id] = key
	if w.ec2.alive(id) {
		tr.marked[key] = id
	}
	for _, s := range list(w.keys) {
		if s.Name == key && s.Annotations[handedOutTo] != string(id) && w.ec2.alive(id) {
			w.t.Errorf("key %s was given to %s but is marked for %q", key, id, s.Annotations[handedOutTo])
		}
	}
	if g.Instance != id {
		w.t.Errorf("%s was given what is %s's", id, g.Instance)
	}
}

// keyOf returns the key that the instance was given, if any.
func (tr *truth) keyOf(id instance.ID) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.has[id]
}

// check looks at the state between two steps.
func (tr *truth) check(w *world) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	unexpired := map[string]int{}
	for _, s := range list(w.tokens) {
		if !expired(s) {
			unexpired[s.Labels[label]]++
		}
	}
	for id, n := range unexpired {
		if n > 1 {
			w.t.Errorf("%s has %d live tokens", id, n)
		}
	}
	keys := list(w.keys)
	for _, s := range keys {
		mark, holder := instance.ID(s.Annotations[handedOutTo]), instance.ID(s.Labels[label])
		was, seen := tr.marked[s.Name]
		if seen && w.ec2.alive(was) && (mark != was || holder != was && !tr.labelsMove) {
			w.t.Errorf("key %s was %s's, which lives; now it is labelled %q and marked %q", s.Name, was, holder, mark)
		}
		if mark != "" && w.ec2.alive(mark) {
			tr.marked[s.Name] = mark
		} else {
			delete(tr.marked, s.Name)
		}
	}
}
