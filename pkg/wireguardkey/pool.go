package wireguardkey

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Secrets is what a Pool needs of the API server: the Secrets of the
// provisioner's namespace. client-go's SecretInterface has it.
type Secrets interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error)
	Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error)
}

// Config says how a Pool reports what it does.
type Config struct {
	// Namespace is where the key Secrets are.
	Namespace string
	// Usable may refuse a configuration, with a reason that holds no secret. Nil
	// accepts any that is not empty.
	Usable func(wireguardConfig []byte) error
	// Recorder writes Kubernetes Events; nil writes none.
	Recorder record.EventRecorder
	// Registerer gets the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
	// Logger is slog's default when nil.
	Logger *slog.Logger
}

// Pool is the pool of keys. All its methods may be called at the same time, in
// several replicas.
type Pool struct {
	secrets   Secrets
	index     cache.Indexer
	namespace string
	usable    func([]byte) error
	events    record.EventRecorder
	log       *slog.Logger
	freed     chan struct{}
	exhausted sync.Map // selectors of which exhaustion was told
	unusable  *utilcache.LRUExpireCache
}

// NewPool returns the pool of the keys behind secrets. The index holds their
// metadata, with Indexers; it is an informer's, and only a hint which keys are
// worth a look.
func NewPool(secrets Secrets, index cache.Indexer, cfg Config) *Pool {
	p := &Pool{
		secrets:   secrets,
		index:     index,
		namespace: cfg.Namespace,
		usable:    cfg.Usable,
		events:    cfg.Recorder,
		log:       cfg.Logger,
		freed:     make(chan struct{}, 1),
		unusable:  utilcache.NewLRUExpireCache(unusableCount),
	}
	if p.usable == nil {
		p.usable = func([]byte) error { return nil }
	}
	if p.events == nil {
		p.events = &record.FakeRecorder{} // without a channel it drops Events
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(collector{p})
	}
	return p
}

// Freed delivers a value, at least once, after a key became free in the cache.
// One reader is meant.
func (p *Pool) Freed() <-chan struct{} { return p.freed }

// EventHandler must be added to the informer behind the index: it feeds Freed.
func (p *Pool) EventHandler() cache.ResourceEventHandler {
	signal := func(object any) {
		m, ok := object.(metav1.Object)
		if !ok || !free(m) {
			return
		}
		p.exhausted.Clear()
		select {
		case p.freed <- struct{}{}:
		default: // a signal is waiting already
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: signal,
		UpdateFunc: func(before, after any) {
			if b, ok := before.(metav1.Object); ok && free(b) {
				return
			}
			signal(after)
		},
	}
}

// reportExhausted tells the operator once, until a key is free again, that no
// key is which the selector matches.
func (p *Pool) reportExhausted(ctx context.Context, selector labels.Selector) {
	which := ""
	if selector != nil {
		which = selector.String()
	}
	if _, told := p.exhausted.LoadOrStore(which, true); told {
		return
	}
	p.log.WarnContext(ctx, "wireguard key pool is exhausted", "namespace", p.namespace, "key_selector", which)
	of := ""
	if which != "" {
		of = " that matches " + which
	}
	p.events.Eventf(&corev1.ObjectReference{Kind: "Namespace", APIVersion: "v1", Name: p.namespace, Namespace: p.namespace},
		corev1.EventTypeWarning, "WireGuardKeysExhausted",
		"No WireGuard key%s is free: instances wait until one is released, or until more key Secrets are added", of)
}

// reportUnusable tells the operator once of each version of a key that it is
// passed over.
func (p *Pool) reportUnusable(ctx context.Context, name, version string, err error) {
	level := slog.LevelDebug
	if _, told := p.unusable.Get(name + " " + version); !told {
		p.unusable.Add(name+" "+version, nil, unusableLife)
		level = slog.LevelWarn
	}
	p.log.Log(ctx, level, "wireguard key is passed over", "key", name, "err", err)
}

// Of so many unusable keys it is remembered for so long that they were told of.
const (
	unusableCount = 1024
	unusableLife  = 24 * time.Hour
)

// collector reports how many keys of the pool are in which state.
type collector struct{ pool *Pool }

var keysDesc = prometheus.NewDesc("dynk8s_wireguard_keys",
	"WireGuard keys of the pool by state: free, allocated, lost (allocated, but the label was removed by hand).",
	[]string{"state"}, nil)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- keysDesc }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	counts := map[string]int{
		"free":      len(c.pool.lookup(byFree, freeValue)),
		"allocated": c.pool.count(byHolder),
		"lost":      c.pool.count(byLost),
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(n), state)
	}
}

func (p *Pool) count(index string) int {
	n := 0
	for _, value := range p.index.ListIndexFuncValues(index) {
		n += len(p.lookup(index, value))
	}
	return n
}
