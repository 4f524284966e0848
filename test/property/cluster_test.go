package property

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// The contract with the cluster, written out here on purpose.
const (
	namespace    = "provisioner"
	holderLabel  = "dynk8s.du5t1n.me/ec2-instance-id"
	allocatedTo  = "dynk8s.du5t1n.me/allocated-to"
	handedOutTo  = "dynk8s.du5t1n.me/handed-out-to"
	joinedAt     = "dynk8s.du5t1n.me/joined-at"
	claimedKey   = "dynk8s.du5t1n.me/wireguard-key"
	configKey    = "wireguard-config"
	goneGrace    = 15 * time.Minute
	never        = 100000 * time.Hour
	tokenLife    = time.Hour
	replicaCount = 2
)

// cluster is an API server, EC2 beside it, and the replicas that work on both.
type cluster struct {
	cloud    *cloud
	schedule *schedule
	server   *apitest.Server
	secrets  *apitest.SecretClient // of the pool's namespace, past the schedule
	tokens   *apitest.SecretClient
	nodes    *apitest.NodeClient
	replicas [replicaCount]*replica
	keyCount int
	room     int                    // how many instances there may be
	failing  bool                   // calls may fail
	marks    map[string]instance.ID // the last mark seen on each key

	mu         sync.Mutex
	handed     map[string][]instance.ID // to whom each key was handed out, ever
	lastServed instance.ID
	violations []string
}

// replica is one process.
type replica struct {
	*lifecycle.Lifecycle
	ctx    context.Context
	end    context.CancelFunc
	killed chan struct{}
	views  []*apitest.View
	lags   bool // its caches fall behind again after they have caught up
}

// catchUp lets the replica's caches see all there is.
func (r *replica) catchUp() {
	for _, view := range r.views {
		view.Release()
		if r.lags {
			view.Hold()
		}
	}
}

func newCluster() *cluster {
	server := apitest.NewServer()
	hand := server.Client(nil)
	return &cluster{
		cloud:    &cloud{machines: map[instance.ID]*machine{}},
		schedule: &schedule{busy: map[int]bool{}},
		server:   server,
		secrets:  hand.Secrets(namespace),
		tokens:   hand.Secrets(metav1.NamespaceSystem),
		nodes:    hand.Nodes(),
		marks:    map[string]instance.ID{},
		handed:   map[string][]instance.ID{},
	}
}

// boot starts a replica in place of the nth, which knows nothing that is not in
// the cluster. It begins with a reconcile pass.
func (c *cluster) boot(n int) {
	ctx, end := context.WithCancel(context.Background())
	killed := make(chan struct{})
	client := c.server.Client(c.schedule.hook(n, killed))
	keys := c.server.ViewSecrets(namespace, wireguardkey.SecretType, wireguardkey.Indexers())
	nodes := c.server.ViewNodes(node.Indexers())
	quiet := slog.New(slog.DiscardHandler)
	pool := wireguardkey.NewPool(client.Secrets(namespace), keys.Indexer(), wireguardkey.Config{Namespace: namespace, Logger: quiet})
	joined := node.New(client.Nodes(), nodes.Indexer())
	keys.Handle(pool.EventHandler())
	nodes.Handle(joined.EventHandler())
	ec2 := console{c.cloud, func(ctx context.Context, what string) error { return c.schedule.hold(ctx, n, killed, what) }}
	r := &replica{
		Lifecycle: lifecycle.New(ec2, bootstraptoken.NewIssuer(client.Secrets(metav1.NamespaceSystem)), pool, joined, lifecycle.Config{
			Interval: never, TokenRenewalCutoff: never, GoneGrace: goneGrace, Logger: quiet,
		}),
		ctx: ctx, end: end, killed: killed, views: []*apitest.View{keys, nodes},
	}
	r.SetProfiles([]lifecycle.Profile{{
		Name: "worker", Selector: ours, Token: bootstraptoken.Settings{TTL: tokenLife},
	}})
	c.replicas[n] = r
	go func() { _ = r.Run(ctx) }() // it returns nil
	synctest.Wait()
}

// kill ends a replica between two of its calls.
func (c *cluster) kill(n int) {
	close(c.replicas[n].killed)
	c.replicas[n].end()
	synctest.Wait()
}

func (c *cluster) killAll() {
	for n, r := range c.replicas {
		if r != nil {
			c.kill(n)
		}
	}
}

// addKey puts another key into the pool.
func (c *cluster) addKey(t *rapid.T, usable bool) {
	c.keyCount++
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("key-%d", c.keyCount), Labels: map[string]string{holderLabel: ""}},
		Type:       wireguardkey.SecretType,
		Data:       map[string][]byte{},
	}
	if usable {
		secret.Data[configKey] = []byte(secret.Name)
	}
	_, err := c.secrets.Create(context.Background(), secret, metav1.CreateOptions{})
	ok(t, err)
}

// keys returns the pool, tokens every bootstrap token.
func (c *cluster) keys(t *rapid.T) []corev1.Secret {
	list, err := c.secrets.List(context.Background(), metav1.ListOptions{})
	ok(t, err)
	return list.Items
}

func (c *cluster) allTokens(t *rapid.T) []corev1.Secret {
	list, err := c.tokens.List(context.Background(), metav1.ListOptions{})
	ok(t, err)
	return list.Items
}

func names(secrets []corev1.Secret) []string {
	var list []string
	for _, s := range secrets {
		list = append(list, s.Name)
	}
	return list
}

// nodeOf returns the Node of an instance, nil when there is none.
func (c *cluster) nodeOf(id instance.ID) *corev1.Node {
	n, err := c.nodes.Get(context.Background(), string(id), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return n
}

// fetch lets the instance ask a replica for its artifacts.
func (c *cluster) fetch(r *replica, id instance.ID) {
	c.schedule.start(r.ctx, func(ctx context.Context) {
		if grant, err := r.Grant(ctx, id); err == nil {
			c.served(id, string(grant.WireGuardConfig))
		}
	})
}

// served notes that a key was handed out, and whether it should not have been.
func (c *cluster) served(id instance.ID, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.handed[key] {
		if other != id && !c.cloud.dead(other) {
			c.violations = append(c.violations, fmt.Sprintf("%s was handed out to %s while %s has it and lives", key, id, other))
		}
	}
	for name, holders := range c.handed {
		if name != key && slices.Contains(holders, id) && !c.cloud.dead(id) {
			c.violations = append(c.violations, fmt.Sprintf("%s was handed %s and before it %s", id, key, name))
		}
	}
	if m := c.cloud.get(id); !m.matched {
		c.violations = append(c.violations, fmt.Sprintf("the stranger %s was handed %s", id, key))
	}
	c.lastServed = id
	if !slices.Contains(c.handed[key], id) {
		c.handed[key] = append(c.handed[key], id)
	}
}

// wasServed reports whether the instance has a key in use.
func (c *cluster) wasServed(id instance.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, holders := range c.handed {
		if slices.Contains(holders, id) {
			return true
		}
	}
	return false
}

func ok(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
