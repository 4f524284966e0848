package property

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// machine is an instance as it really is.
type machine struct {
	instance.Instance
	matched   bool // its tags matched at some time
	forgotten bool // EC2 does not know it any more
}

// living reports whether nothing may be taken from the instance.
func (m *machine) living() bool { return m.State != instance.Terminated }

// cloud is EC2.
type cloud struct {
	mu       sync.Mutex
	machines map[instance.ID]*machine
	// blind is an EC2 that answers, but with nothing.
	blind bool
}

const (
	ourTag   = "cluster"
	ourValue = "home"
	zone     = "us-east-2a"
)

// launch starts the next instance.
func (c *cloud) launch(ours bool) instance.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := instance.ID(fmt.Sprintf("i-%017x", len(c.machines)+1))
	tags := map[string]string{ourTag: "another"}
	if ours {
		tags[ourTag] = ourValue
	}
	c.machines[id] = &machine{matched: ours, Instance: instance.Instance{
		ID: id, State: instance.Running, LaunchTime: time.Now(), Type: "t3.small", Zone: zone, Tags: tags,
	}}
	return id
}

// all returns the ids in the order of their launch.
func (c *cloud) all(wanted func(*machine) bool) []instance.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []instance.ID
	for _, id := range slices.Sorted(maps.Keys(c.machines)) {
		if wanted(c.machines[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *cloud) change(id instance.ID, f func(*machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.machines[id])
}

// get returns a copy.
func (c *cloud) get(id instance.ID) machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.machines[id]
}

func (c *cloud) dead(id instance.ID) bool { m := c.get(id); return !m.living() }

// visible returns what EC2 shows of those that are wanted.
func (c *cloud) visible(wanted func(instance.Instance) bool) map[instance.ID]instance.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[instance.ID]instance.Instance{}
	for id, m := range c.machines {
		if !c.blind && !m.forgotten && wanted(m.Instance) {
			shown := m.Instance
			shown.Tags = maps.Clone(m.Tags)
			found[id] = shown
		}
	}
	return found
}

// console is how one replica asks EC2.
type console struct {
	cloud *cloud
	hold  func(ctx context.Context, what string) error
}

func (c console) Instance(ctx context.Context, id instance.ID) (instance.Instance, error) {
	found, err := c.Instances(ctx, []instance.ID{id})
	if err != nil {
		return instance.Instance{}, err
	}
	inst, ok := found[id]
	if !ok {
		return instance.Instance{}, fmt.Errorf("%s: %w", id, instance.ErrNotFound)
	}
	return inst, nil
}

func (c console) Instances(ctx context.Context, ids []instance.ID) (map[instance.ID]instance.Instance, error) {
	ids = slices.Sorted(slices.Values(ids))
	if err := c.hold(ctx, fmt.Sprint("describe ", ids)); err != nil {
		return nil, err
	}
	return c.cloud.visible(func(i instance.Instance) bool { return slices.Contains(ids, i.ID) }), nil
}

func (c console) Matching(ctx context.Context, s instance.Selector) ([]instance.Instance, error) {
	if err := c.hold(ctx, "describe matching"); err != nil {
		return nil, err
	}
	found := c.cloud.visible(func(i instance.Instance) bool { return i.State.Starting() && s.Matches(i.Tags) })
	var list []instance.Instance
	for _, id := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[id])
	}
	return list, nil
}

func (c console) Unknown(ctx context.Context, id instance.ID) (bool, error) {
	if err := c.hold(ctx, fmt.Sprint("describe only ", id)); err != nil {
		return false, err
	}
	c.cloud.mu.Lock()
	defer c.cloud.mu.Unlock()
	m, launched := c.cloud.machines[id]
	return !c.cloud.blind && (!launched || m.forgotten), nil
}

// errDown is a failure of a call to EC2 or to the API server.
var errDown = errors.New("the service is not available")
