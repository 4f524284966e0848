package wireguardkey

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	namespace              = "dynk8s"
	instanceA  instance.ID = "i-0000000000000000a"
	instanceB  instance.ID = "i-0000000000000000b"
	annotation             = "dynk8s.du5t1n.me/"
)

// privateKey makes up a private key that looks like a real one.
func privateKey(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func config(name string) string {
	return "[Interface]\nPrivateKey = " + privateKey(name) + "\nAddress = 10.99.0.7/32\n"
}

// cluster is an API server with a Pool, and a hand that meddles.
type cluster struct {
	*Pool
	server   *apitest.Server
	client   *apitest.Client
	view     *apitest.View
	hand     *apitest.SecretClient
	hook     apitest.Hook
	recorder *record.FakeRecorder
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newCluster(usable func([]byte) error) *cluster {
	c := &cluster{server: apitest.NewServer(), recorder: record.NewFakeRecorder(100), registry: prometheus.NewPedanticRegistry()}
	c.client = c.server.Client(func(ctx context.Context, call apitest.Call) error {
		if c.hook == nil {
			return nil
		}
		return c.hook(ctx, call)
	})
	c.hand = c.server.Client(nil).Secrets(namespace)
	c.view = c.server.ViewSecrets(namespace, SecretType, Indexers())
	c.Pool = NewPool(c.client.Secrets(namespace), c.view.Indexer(), Config{
		Namespace: namespace, Usable: usable, Recorder: c.recorder, Registerer: c.registry,
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	})
	c.view.Handle(c.EventHandler())
	return c
}

// put adds a free key, after f changed it.
func (c *cluster) put(t *testing.T, name string, f func(*corev1.Secret)) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{InstanceLabel: ""}},
		Type:       SecretType,
		Data:       map[string][]byte{ConfigKey: []byte(config(name))},
	}
	if f != nil {
		f(secret)
	}
	if _, err := c.hand.Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// edit changes a Secret by hand.
func (c *cluster) edit(t *testing.T, name string, f func(*corev1.Secret)) {
	t.Helper()
	secret := c.secret(t, name)
	f(secret)
	if _, err := c.hand.Update(context.Background(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret, err := c.hand.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (c *cluster) get(t *testing.T, name string) Key {
	t.Helper()
	return keyOf(c.secret(t, name))
}

func (c *cluster) allocate(t *testing.T, name string, id instance.ID) Key {
	t.Helper()
	if err := c.Allocate(context.Background(), c.get(t, name), id); err != nil {
		t.Fatal(err)
	}
	return c.get(t, name)
}

func (c *cluster) handOut(t *testing.T, name string, id instance.ID) Key {
	t.Helper()
	if _, err := c.HandOut(context.Background(), c.allocate(t, name, id), id); err != nil {
		t.Fatal(err)
	}
	return c.get(t, name)
}

// meddleOnce runs f before the first call with the verb.
func (c *cluster) meddleOnce(verb string, f func()) {
	done := false
	c.hook = func(_ context.Context, call apitest.Call) error {
		if call.Verb == verb && !done {
			done = true
			f()
		}
		return nil
	}
}

// events returns the Events recorded since it was last called.
func (c *cluster) events() []string {
	var all []string
	for {
		select {
		case e := <-c.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func wantHolder(t *testing.T, key Key, want instance.ID) {
	t.Helper()
	if got := key.secret().Labels[InstanceLabel]; got != string(want) {
		t.Errorf("key %s is held by %q, want %q", key.Name(), got, want)
	}
}

// wantFree checks that nothing on the key names an instance.
func wantFree(t *testing.T, key Key) {
	t.Helper()
	if !free(key.secret()) {
		t.Errorf("key %s is not free: %v %v", key.Name(), key.secret().Labels, key.secret().Annotations)
	}
	if names := slices.Sorted(maps.Keys(key.secret().Annotations)); len(names) > 1 || len(names) == 1 && names[0] != releasedAt {
		t.Errorf("key %s has annotations %v", key.Name(), names)
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func instanceNumber(n int) instance.ID { return instance.ID(fmt.Sprintf("i-%017x", n)) }
