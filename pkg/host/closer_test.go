package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// world is an API server with a Closer that runs.
type world struct {
	server *apitest.Server
	hand   *apitest.Client
	issuer *bootstraptoken.HostIssuer
	tokens *apitest.View
	nodes  *apitest.View
	log    *buffer
	mu     sync.Mutex
	hook   apitest.Hook
}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{server: apitest.NewServer(), log: &buffer{}}
	w.hand = w.server.Client(nil)
	w.issuer = bootstraptoken.NewHostIssuer(w.hand.Secrets(metav1.NamespaceSystem))
	client := w.server.Client(func(ctx context.Context, call apitest.Call) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hook == nil {
			return nil
		}
		return w.hook(ctx, call)
	})
	w.tokens = w.server.ViewSecrets(metav1.NamespaceSystem, corev1.SecretTypeBootstrapToken, bootstraptoken.HostIndexers())
	w.nodes = w.server.ViewNodes(node.Indexers())
	closer := NewCloser(bootstraptoken.NewHostIssuer(client.Secrets(metav1.NamespaceSystem)),
		node.New(client.Nodes(), w.nodes.Indexer()), w.tokens.Indexer(), slog.New(slog.NewTextHandler(w.log, nil)))
	w.tokens.Handle(closer.TokenEvents())
	w.nodes.Handle(closer.NodeEvents())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- closer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) setHook(h apitest.Hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = h
}

func (w *world) add(t *testing.T, host string) bootstraptoken.HostToken {
	t.Helper()
	token, _, err := w.issuer.Ensure(t.Context(), bootstraptoken.HostRequest{Name: host, Settings: bootstraptoken.Settings{TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func readyNode(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}},
	}
}

// wantTokens waits until nothing moves and counts the host's tokens.
func (w *world) wantTokens(t *testing.T, host string, want int) {
	t.Helper()
	synctest.Wait()
	tokens, err := w.issuer.FindAll(t.Context(), host)
	if err != nil || len(tokens) != want {
		t.Errorf("%s has %d tokens, %v, want %d", host, len(tokens), err, want)
	}
}

func TestTokenIsRevokedOnceTheHostIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.add(t, "worker-1")
		w.add(t, "worker-2")
		w.wantTokens(t, "worker-1", 1)
		created, err := w.hand.Nodes().Create(t.Context(), readyNode("worker-1", corev1.ConditionFalse), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.wantTokens(t, "worker-1", 1)
		created.Status = readyNode("", corev1.ConditionTrue).Status
		if _, err := w.hand.Nodes().Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantTokens(t, "worker-1", 0)
		w.wantTokens(t, "worker-2", 1)
		_, secret, _ := strings.Cut(token.Token.Reveal(), ".")
		if log := w.log.String(); !strings.Contains(log, "the host has joined") || strings.Contains(log, secret) {
			t.Errorf("log: %s", log)
		}
	})
}

// A Node that is seen before its token closes it all the same.
func TestTokenSeenLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tokens.Hold()
		w.add(t, "worker-1")
		if _, err := w.hand.Nodes().Create(t.Context(), readyNode("worker-1", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantTokens(t, "worker-1", 1)
		w.tokens.Release()
		w.wantTokens(t, "worker-1", 0)
	})
}

// The cache may still show a Node as Ready that is gone: it is read live.
func TestAStaleReadyNodeRevokesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.hand.Nodes().Create(t.Context(), readyNode("worker-1", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.nodes.Hold()
		if err := w.hand.Nodes().Delete(t.Context(), "worker-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.add(t, "worker-1")
		w.wantTokens(t, "worker-1", 1)
	})
}

func TestExpiredTokensGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add(t, "worker-1")
		time.Sleep(50 * time.Minute)
		w.add(t, "worker-1") // renewed
		time.Sleep(30 * time.Minute)
		w.wantTokens(t, "worker-1", 1)
		time.Sleep(31 * time.Minute)
		w.wantTokens(t, "worker-1", 0)
		if log := w.log.String(); !strings.Contains(log, "the token has expired") {
			t.Errorf("log: %s", log)
		}
	})
}

// What fails is tried again, and a panic ends nothing.
func TestFaultsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"list", "get", "delete"} {
		for _, how := range []string{"error", "panic"} {
			t.Run(verb+" "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					failures := 0
					w.setHook(func(_ context.Context, call apitest.Call) error {
						if call.Verb != verb || failures == 3 {
							return nil
						}
						failures++
						if how == "panic" {
							panic("hush-hush")
						}
						return errors.New("away")
					})
					if _, err := w.hand.Nodes().Create(t.Context(), readyNode("worker-1", corev1.ConditionTrue), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					w.add(t, "worker-1")
					time.Sleep(5 * time.Minute)
					w.wantTokens(t, "worker-1", 0)
					if log := w.log.String(); failures != 3 || !strings.Contains(log, "trying again") || strings.Contains(log, "hush-hush") {
						t.Errorf("%d failures, log: %s", failures, log)
					}
				})
			})
		}
	}
}
