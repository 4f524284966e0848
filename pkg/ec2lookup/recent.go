package ec2lookup

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	recentLife  = 10 * time.Second
	recentCount = 16384
)

// Recent answers with what EC2 said of an instance up to ten seconds ago, that it
// knows none among it. It is for those who are asked by strangers, again and
// again.
type Recent struct {
	lookup  *Lookup
	answers *cache.LRUExpireCache
}

// NewRecent returns a Recent that asks lookup.
func NewRecent(lookup *Lookup) *Recent {
	return &Recent{lookup: lookup, answers: cache.NewLRUExpireCache(recentCount)}
}

type answer struct {
	inst instance.Instance
	err  error // nil or instance.ErrNotFound
}

// Instance is Lookup's.
func (r *Recent) Instance(ctx context.Context, id instance.ID) (instance.Instance, error) {
	if known, found := r.answers.Get(id); found {
		a := known.(answer)
		return a.inst, a.err
	}
	inst, err := r.lookup.Instance(ctx, id)
	if err == nil || errors.Is(err, instance.ErrNotFound) {
		r.answers.Add(id, answer{inst, err}, recentLife)
	}
	return inst, err
}
