package lifecycle

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// Instances answers what EC2 knows.
type Instances interface {
	// Instance returns one instance, or an error that is instance.ErrNotFound.
	Instance(ctx context.Context, id instance.ID) (instance.Instance, error)
	// Instances returns those of the ids that EC2 knows.
	Instances(ctx context.Context, ids []instance.ID) (map[instance.ID]instance.Instance, error)
	// Matching returns the pending and running instances that match.
	Matching(ctx context.Context, s instance.Selector) ([]instance.Instance, error)
	// Unknown reports whether EC2 says in so many words that there is no such
	// instance.
	Unknown(ctx context.Context, id instance.ID) (bool, error)
}

// Profile says which instances are ours and what they are given.
type Profile struct {
	Name     string
	Selector instance.Selector
	Token    bootstraptoken.Settings
	// Keys narrows the pool of WireGuard keys; nil does not.
	Keys labels.Selector
	// Restrictions are given to the Node once it is Ready.
	Restrictions node.Restrictions
	// NodeName returns the name that the instance's Node must have to be given
	// the restrictions; nil means the instance id.
	NodeName func(Grant) (string, error)
}

// Reissues tells of tokens that an operator asked for.
type Reissues interface {
	// Reissued reports whether one is in force for the instance, and beside
	// which Ready Node it was made.
	Reissued(id instance.ID, now time.Time) (readyNode string, ok bool)
}

// Config holds the times and reports of a Lifecycle. A zero duration means the
// default.
type Config struct {
	// Interval lies between two reconcile passes; 5 minutes by default.
	Interval time.Duration
	// TokenRenewalCutoff is how long after its launch an instance that has not
	// joined gets its token renewed; 24 hours by default, negative for never.
	TokenRenewalCutoff time.Duration
	// GoneGrace is how long an instance that EC2 does not know is given the
	// benefit of the doubt; 15 minutes by default.
	GoneGrace time.Duration
	// Reissues tells of tokens that an operator asked for; nil of none.
	Reissues Reissues
	// Registerer gets the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
	// Logger is slog's default when nil.
	Logger *slog.Logger
}

const (
	defaultInterval = 5 * time.Minute
	defaultCutoff   = 24 * time.Hour
	defaultGrace    = 15 * time.Minute
	// youth is how long after its launch EC2's answers about an instance may
	// lack tags or show an old state.
	youth = 2 * time.Minute
	// tombstones are kept for longer than SQS's usual redeliveries take, and as
	// many as any cluster's instances die meanwhile.
	tombstoneLife  = 6 * time.Hour
	tombstoneCount = 16384
)

// Lifecycle admits and retires instances. All its methods may be called at the
// same time, in several replicas.
type Lifecycle struct {
	instances Instances
	tokens    *bootstraptoken.Issuer
	keys      *wireguardkey.Pool
	nodes     *node.Nodes
	cfg       Config
	log       *slog.Logger
	metrics   metrics

	profiles   atomic.Pointer[[]Profile]
	tombstones *cache.LRUExpireCache
	waiting    waiting
	strikes    strikes
}

// New returns a Lifecycle that admits nothing until SetProfiles is called.
func New(instances Instances, tokens *bootstraptoken.Issuer, keys *wireguardkey.Pool, nodes *node.Nodes, cfg Config) *Lifecycle {
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.TokenRenewalCutoff == 0 {
		cfg.TokenRenewalCutoff = defaultCutoff
	}
	if cfg.GoneGrace == 0 {
		cfg.GoneGrace = defaultGrace
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	l := &Lifecycle{
		instances:  instances,
		tokens:     tokens,
		keys:       keys,
		nodes:      nodes,
		cfg:        cfg,
		log:        cfg.Logger,
		metrics:    newMetrics(cfg.Registerer),
		tombstones: cache.NewLRUExpireCache(tombstoneCount),
	}
	l.SetProfiles(nil)
	return l
}

// SetProfiles replaces the profiles, of which the first that matches an
// instance counts. It may be called at any time.
func (l *Lifecycle) SetProfiles(profiles []Profile) { l.profiles.Store(&profiles) }

// ProfileOf returns the first profile that the tags match.
func (l *Lifecycle) ProfileOf(tags map[string]string) (Profile, bool) {
	for _, p := range *l.profiles.Load() {
		if p.Selector.Matches(tags) {
			return p, true
		}
	}
	return Profile{}, false
}

// profileNamed returns the profile with the name, if it is still configured.
func (l *Lifecycle) profileNamed(name string) (Profile, bool) {
	profiles := *l.profiles.Load()
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return profiles[i], true
}

// takesAll reports whether the first profile matches every instance, so that
// tags do not matter.
func (l *Lifecycle) takesAll() bool {
	profiles := *l.profiles.Load()
	return len(profiles) > 0 && profiles[0].Selector.MatchesAll()
}

// tombstone says that an instance was seen in a state from which it never runs
// again.
type tombstone struct {
	id    instance.ID
	state instance.State
}

// bury remembers that the instance is shutting down or terminated, so that a
// late event does not revive it.
func (l *Lifecycle) bury(id instance.ID, state instance.State) {
	l.tombstones.Add(tombstone{id, state}, time.Now(), tombstoneLife)
}

func (l *Lifecycle) buried(id instance.ID) bool {
	return l.buriedAs(id, instance.ShuttingDown) || l.buriedAs(id, instance.Terminated)
}

func (l *Lifecycle) buriedAs(id instance.ID, state instance.State) bool {
	_, found := l.tombstones.Get(tombstone{id, state})
	return found
}

// unbury forgets that an instance was said to end when EC2 still says, long
// after, that it is starting or running: what said so was wrong.
func (l *Lifecycle) unbury(ctx context.Context, inst instance.Instance) {
	for _, state := range []instance.State{instance.ShuttingDown, instance.Terminated} {
		at, found := l.tombstones.Get(tombstone{inst.ID, state})
		if said, ok := at.(time.Time); found && ok && time.Since(said) > l.cfg.GoneGrace {
			l.tombstones.Remove(tombstone{inst.ID, state})
			l.log.WarnContext(ctx, "an event said that the instance ends, but EC2 still says that it does not: the event was wrong",
				"instance", inst.ID, "said", state, "state", inst.State)
		}
	}
}
