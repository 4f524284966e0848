package property

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// check looks for what must not be at any moment.
func (c *cluster) check(t *rapid.T) {
	t.Helper()
	for _, v := range c.violations {
		t.Fatal(v)
	}
	for _, key := range c.keys(t) {
		c.checkMark(t, key)
		for _, id := range namedBy(key) {
			if m := c.cloud.get(id); !m.matched {
				t.Fatalf("%s names the stranger %s", key.Name, id)
			}
		}
	}
	seen := map[string]string{}
	for _, token := range c.allTokens(t) {
		id := token.Labels[holderLabel]
		if id == "" {
			continue
		}
		if other, twice := seen[id]; twice {
			t.Fatalf("%s has two tokens: %s and %s", id, other, token.Name)
		}
		seen[id] = token.Name
		if m := c.cloud.get(instance.ID(id)); !m.matched {
			t.Fatalf("the stranger %s has a token", id)
		}
	}
}

// checkMark sees that a key that was marked for an instance stays that
// instance's while it lives.
func (c *cluster) checkMark(t *rapid.T, key corev1.Secret) {
	t.Helper()
	mark := instance.ID(key.Annotations[handedOutTo])
	if before := c.marks[key.Name]; before != "" && before != mark && !c.cloud.dead(before) {
		t.Fatalf("%s was marked for %s, which lives, and now for %q", key.Name, before, mark)
	}
	c.marks[key.Name] = mark
	holder := key.Labels[holderLabel]
	if mark != "" && !c.cloud.dead(mark) && holder != "" && holder != string(mark) {
		t.Fatalf("%s is marked for %s, which lives, and labelled for %s", key.Name, mark, holder)
	}
}

// namedBy returns the instances that a key's label and annotations name.
func namedBy(key corev1.Secret) []instance.ID {
	var ids []instance.ID
	for _, s := range []string{key.Labels[holderLabel], key.Annotations[allocatedTo], key.Annotations[handedOutTo]} {
		if s != "" && !slices.Contains(ids, instance.ID(s)) {
			ids = append(ids, instance.ID(s))
		}
	}
	return ids
}

// isFree reports whether a key may be given to anybody.
func isFree(key corev1.Secret) bool {
	_, pooled := key.Labels[holderLabel]
	return pooled && len(namedBy(key)) == 0 && len(key.Data[configKey]) > 0
}

// holding is what one instance has.
type holding struct {
	keys   []string // whose labels name it
	marked []string // those that were handed out to it, with a label or without
	claims []string // the keys that its tokens name
}

func (c *cluster) holdings(t *rapid.T) (held map[instance.ID]holding, free int) {
	held = map[instance.ID]holding{}
	for _, key := range c.keys(t) {
		if isFree(key) {
			free++
		}
		if id := instance.ID(key.Labels[holderLabel]); id != "" {
			h := held[id]
			h.keys = append(h.keys, key.Name)
			held[id] = h
		}
		if id := instance.ID(key.Annotations[handedOutTo]); id != "" {
			h := held[id]
			h.marked = append(h.marked, key.Name)
			held[id] = h
		}
	}
	for _, token := range c.allTokens(t) {
		if id := instance.ID(token.Labels[holderLabel]); id != "" {
			h := held[id]
			h.claims = append(h.claims, token.Annotations[claimedKey])
			held[id] = h
		}
	}
	return held, free
}

// checkSettled looks at what must have come about once everything is quiet.
func (c *cluster) checkSettled(t *rapid.T) {
	t.Helper()
	c.check(t)
	held, free := c.holdings(t)
	for _, id := range c.cloud.all(func(*machine) bool { return true }) {
		m, h := c.cloud.get(id), held[id]
		n := c.nodeOf(id)
		switch {
		case !m.living():
			if len(h.keys)+len(h.claims) > 0 || n != nil {
				t.Fatalf("%s is dead and still has %+v, Node %v", id, h, n != nil)
			}
		case m.State == instance.ShuttingDown:
			if len(h.claims) > 0 {
				t.Fatalf("%s shuts down and still has a token", id)
			}
		case n != nil && isReady(n):
			if len(h.claims) > 0 {
				t.Fatalf("%s has joined and still has a token", id)
			}
		case c.joinedBefore(t, id):
			if len(h.claims) > 0 {
				t.Fatalf("%s has joined once and has a token again", id)
			}
		case c.waits(t, id):
			c.checkServed(t, id, h, free)
		}
		if m.living() && c.wasServed(id) && len(h.marked) == 0 {
			t.Fatalf("%s lives and lost the key that it was handed", id)
		}
		if !m.State.Ending() && !subset(h.marked, h.keys) {
			t.Fatalf("%s lives, was handed %q and holds %q", id, h.marked, h.keys)
		}
	}
	for _, key := range c.keys(t) {
		for _, id := range namedBy(key) {
			if c.cloud.dead(id) {
				t.Fatalf("%s still names %s, which is dead", key.Name, id)
			}
		}
	}
}

// waits reports whether the instance should be given what it needs to join: once
// it has joined only an operator can let it in again.
func (c *cluster) waits(t *rapid.T, id instance.ID) bool {
	m := c.cloud.get(id)
	return m.State.Starting() && ours.Matches(m.Tags) && c.nodeOf(id) == nil && !c.joinedBefore(t, id)
}

// joinedBefore reports whether a key of the instance says so.
func (c *cluster) joinedBefore(t *rapid.T, id instance.ID) bool {
	return slices.ContainsFunc(c.keys(t), func(key corev1.Secret) bool {
		return key.Annotations[joinedAt] != "" && slices.Contains(namedBy(key), id)
	})
}

// checkServed looks at an instance that waits to join: it has what it needs, or
// nothing because no key was free.
func (c *cluster) checkServed(t *rapid.T, id instance.ID, h holding, free int) {
	t.Helper()
	if len(h.keys)+len(h.claims) == 0 && free == 0 {
		return
	}
	one := len(h.keys) == 1 || len(h.keys) == len(h.marked)
	if !one || len(h.claims) != 1 || !slices.Contains(h.keys, h.claims[0]) {
		t.Fatalf("%s waits to join and has %+v; %d keys are free", id, h, free)
	}
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
