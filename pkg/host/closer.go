package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

const (
	// attemptTimeout bounds one attempt, so that a call without an answer does not
	// hold up the next host.
	attemptTimeout = 30 * time.Second
	// A failed attempt is made again after minBackoff, doubled each time up to
	// maxBackoff.
	minBackoff = 200 * time.Millisecond
	maxBackoff = time.Minute
)

// Tokens are the tokens of hosts; see bootstraptoken.HostIssuer.
type Tokens interface {
	FindAll(ctx context.Context, host string) ([]bootstraptoken.HostToken, error)
	// RevokeUnchanged answers with an error that is bootstraptoken.ErrConflict when
	// the token is not as it was read.
	RevokeUnchanged(ctx context.Context, token bootstraptoken.HostToken) (bool, error)
}

// Nodes reads Nodes from the API server; see node.Nodes.
type Nodes interface {
	Named(ctx context.Context, name string) (node.Node, bool, error)
}

// Closer revokes the tokens of hosts that have joined and those that have
// expired. Several replicas may do so at the same time.
type Closer struct {
	tokens Tokens
	nodes  Nodes
	index  cache.Indexer
	log    *slog.Logger
	queue  workqueue.TypedRateLimitingInterface[string] // of hosts
}

// NewCloser returns a Closer that hears of tokens by TokenEvents and of Nodes by
// NodeEvents, and works while it runs. The index is that of the tokens' informer,
// with bootstraptoken.HostIndexers. A nil log is slog's default.
func NewCloser(tokens Tokens, nodes Nodes, index cache.Indexer, log *slog.Logger) *Closer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)
	return &Closer{
		tokens: tokens, nodes: nodes, index: index,
		log:   cmp.Or(log, slog.Default()),
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
	}
}

// TokenEvents must be added to the informer over the tokens of hosts.
func (c *Closer) TokenEvents() cache.ResourceEventHandler {
	look := func(object any) {
		if m, ok := object.(metav1.Object); ok {
			c.queue.Add(m.GetLabels()[bootstraptoken.HostLabel])
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, after any) { look(after) }}
}

// NodeEvents must be added to the informer over Nodes.
func (c *Closer) NodeEvents() cache.ResourceEventHandler {
	look := func(object any) {
		// A Node that is seen before its token is looked at when the token is seen.
		if n, ok := object.(*corev1.Node); ok && bootstraptoken.HasHostToken(c.index, n.Name) {
			c.queue.Add(n.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, after any) { look(after) }}
}

// Run works until ctx ends, then returns nil. It is to be called once.
func (c *Closer) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	for c.next(ctx) {
	}
	return nil
}

// next looks at one host. It reports false when there will be no more.
func (c *Closer) next(ctx context.Context) bool {
	host, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(host)
	if ctx.Err() != nil { // what is in the queue is handed out even now
		return false
	}
	again, err := c.attempt(ctx, host)
	switch {
	case err == nil:
		c.queue.Forget(host)
		if again > 0 {
			c.queue.AddAfter(host, again)
		}
		return true
	case ctx.Err() != nil:
		return false
	case !errors.Is(err, bootstraptoken.ErrConflict): // else it was renewed, or another replica was faster
		c.log.WarnContext(ctx, "token of a host not settled, trying again", "host", host, "err", err)
	}
	c.queue.AddRateLimited(host)
	return true
}

// attempt makes one attempt, and turns a panic into an error.
func (c *Closer) attempt(ctx context.Context, host string) (again time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = recovery.Error(r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return c.settle(ctx, host)
}

// settle revokes the host's tokens if they are not needed any more. Otherwise it
// returns after how long one of them expires.
func (c *Closer) settle(ctx context.Context, host string) (again time.Duration, err error) {
	tokens, err := c.tokens.FindAll(ctx, host)
	if err != nil || len(tokens) == 0 {
		return 0, err
	}
	// Read live and after the token: a Node that was Ready before the token was
	// made may be one that is gone.
	there, _, err := c.nodes.Named(ctx, host)
	if err != nil {
		return 0, err
	}
	for _, token := range tokens {
		reason := ""
		switch {
		case there.Ready():
			reason = "the host has joined"
		case token.Expired(time.Now()):
			reason = "the token has expired"
		default:
			if wait := time.Until(token.Expires); again == 0 || wait < again {
				again = wait
			}
			continue
		}
		deleted, err := c.tokens.RevokeUnchanged(ctx, token)
		if err != nil {
			return 0, err
		}
		if deleted {
			c.log.InfoContext(ctx, "token of a host revoked", "host", host, "token", token.Token.ID(), "reason", reason)
		}
	}
	return again, nil
}
