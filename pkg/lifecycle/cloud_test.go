package lifecycle_test

import (
	"context"
	"maps"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// cloud is EC2: what is, and how it answers.
type cloud struct {
	mu        sync.Mutex
	instances map[instance.ID]instance.Instance
	vanished  map[instance.ID]bool // EC2 says that there is no such instance
	err       error                // of every answer
	unknown   error                // of Unknown's answers only
	empty     bool                 // every answer is empty
	lookups   int
}

func newCloud() *cloud {
	return &cloud{instances: map[instance.ID]instance.Instance{}, vanished: map[instance.ID]bool{}}
}

// launch starts a worker, ten minutes ago.
func (c *cloud) launch(id instance.ID) instance.Instance {
	inst := instance.Instance{
		ID: id, State: instance.Running, LaunchTime: time.Now().Add(-10 * time.Minute), Type: "t3.small", Zone: "us-east-2a",
		PrivateDNSName: "ip-10-0-0-1.internal", Tags: map[string]string{"role": "worker"},
	}
	c.set(inst)
	return inst
}

func (c *cloud) set(inst instance.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[inst.ID] = inst
}

func (c *cloud) change(id instance.ID, f func(*instance.Instance)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inst := c.instances[id]
	f(&inst)
	c.instances[id] = inst
}

func (c *cloud) setState(id instance.ID, s instance.State) {
	c.change(id, func(inst *instance.Instance) { inst.State = s })
}

// vanish makes EC2 forget the instance.
func (c *cloud) vanish(id instance.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.instances, id)
	c.vanished[id] = true
}

// alive reports whether the instance lives in truth.
func (c *cloud) alive(id instance.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	inst, known := c.instances[id]
	return known && inst.State != instance.Terminated
}

func (c *cloud) answer() (map[instance.ID]instance.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookups++
	if c.err != nil {
		return nil, c.err
	}
	if c.empty {
		return nil, nil
	}
	return maps.Clone(c.instances), nil
}

func (c *cloud) Instance(_ context.Context, id instance.ID) (instance.Instance, error) {
	all, err := c.answer()
	if err != nil {
		return instance.Instance{}, err
	}
	inst, known := all[id]
	if !known {
		return instance.Instance{}, instance.ErrNotFound
	}
	return inst, nil
}

func (c *cloud) Instances(_ context.Context, ids []instance.ID) (map[instance.ID]instance.Instance, error) {
	all, err := c.answer()
	found := map[instance.ID]instance.Instance{}
	for _, id := range ids {
		if inst, known := all[id]; known {
			found[id] = inst
		}
	}
	return found, err
}

func (c *cloud) Matching(_ context.Context, s instance.Selector) ([]instance.Instance, error) {
	all, err := c.answer()
	var found []instance.Instance
	for _, inst := range all {
		if inst.State.Starting() && s.Matches(inst.Tags) {
			found = append(found, inst)
		}
	}
	return found, err
}

func (c *cloud) Unknown(_ context.Context, id instance.ID) (bool, error) {
	if _, err := c.answer(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vanished[id] && !c.empty && c.unknown == nil, c.unknown
}
