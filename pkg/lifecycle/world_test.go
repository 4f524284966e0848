package lifecycle_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

const (
	namespace             = "dynk8s"
	instanceA instance.ID = "i-0000000000000000a"
	instanceB instance.ID = "i-0000000000000000b"
	instanceC instance.ID = "i-0000000000000000c"

	label       = "dynk8s.du5t1n.me/ec2-instance-id"
	allocatedTo = "dynk8s.du5t1n.me/allocated-to"
	handedOutTo = "dynk8s.du5t1n.me/handed-out-to"
	claimedKey  = "dynk8s.du5t1n.me/wireguard-key"
	reissued    = "dynk8s.du5t1n.me/reissued-until"

	ttl      = time.Hour
	interval = 5 * time.Minute
	grace    = 15 * time.Minute
	cutoff   = 24 * time.Hour
)

// world is an API server and EC2, with what the operator does by hand.
type world struct {
	t      *testing.T
	server *apitest.Server
	ec2    *cloud
	keys   *apitest.SecretClient
	tokens *apitest.SecretClient
	nodes  *apitest.NodeClient
	log    lockedBuffer
	truth  truth
}

// in runs f in a world whose time stands still unless all wait for it.
func in(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: apitest.NewServer(), ec2: newCloud(), truth: newTruth()}
		hand := w.server.Client(nil)
		w.keys, w.tokens, w.nodes = hand.Secrets(namespace), hand.Secrets(metav1.NamespaceSystem), hand.Nodes()
		f(t, w)
		w.wantNoSecretsLogged()
	})
}

// replica is one running program.
type replica struct {
	*lifecycle.Lifecycle
	w      *world
	hook   atomic.Pointer[apitest.Hook]
	client *apitest.Client
	views
	registry *prometheus.Registry
}

// views are a replica's caches.
type views struct{ keyView, nodeView, tokenView *apitest.View }

func (v views) allViews() []*apitest.View { return []*apitest.View{v.keyView, v.nodeView, v.tokenView} }

func worker(t *testing.T) lifecycle.Profile {
	t.Helper()
	return profile(t, "worker", instance.Condition{Key: "role", Values: []string{"worker"}})
}

func profile(t *testing.T, name string, conditions ...instance.Condition) lifecycle.Profile {
	t.Helper()
	p := lifecycle.Profile{Name: name, Selector: instance.MatchAll(), Token: bootstraptoken.Settings{TTL: ttl}}
	if len(conditions) > 0 {
		var err error
		if p.Selector, err = instance.NewSelector(conditions); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func labelled(t *testing.T, selector string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts a replica that knows nothing yet.
func (w *world) start() *replica { return w.startWith(w.ec2) }

func (w *world) startWith(ec2 lifecycle.Instances) *replica {
	r := &replica{w: w, registry: prometheus.NewPedanticRegistry()}
	r.client = w.server.Client(func(ctx context.Context, c apitest.Call) error {
		if hook := r.hook.Load(); hook != nil {
			return (*hook)(ctx, c)
		}
		return nil
	})
	log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.keyView = w.server.ViewSecrets(namespace, wireguardkey.SecretType, wireguardkey.Indexers())
	r.nodeView = w.server.ViewNodes(node.Indexers())
	r.tokenView = w.server.ViewSecrets(metav1.NamespaceSystem, corev1.SecretTypeBootstrapToken, bootstraptoken.Indexers())
	keys := wireguardkey.NewPool(r.client.Secrets(namespace), r.keyView.Indexer(), wireguardkey.Config{
		Namespace: namespace, Logger: log,
		Usable: func(config []byte) error {
			if bytes.Contains(config, []byte("broken")) {
				return fmt.Errorf("no address")
			}
			return nil
		},
	})
	nodes := node.New(r.client.Nodes(), r.nodeView.Indexer())
	r.keyView.Handle(keys.EventHandler())
	r.nodeView.Handle(nodes.EventHandler())
	r.Lifecycle = lifecycle.New(ec2, bootstraptoken.NewIssuer(r.client.Secrets(metav1.NamespaceSystem)), keys, nodes, lifecycle.Config{
		Interval: interval, TokenRenewalCutoff: cutoff, GoneGrace: grace, Registerer: r.registry, Logger: log,
		Reissues: bootstraptoken.NewCache(r.tokenView.Indexer()),
	})
	r.SetProfiles([]lifecycle.Profile{worker(w.t)})
	return r
}

// setHook makes the replica's calls go through the hook from now on; nil lets
// all pass.
func (r *replica) setHook(h apitest.Hook) {
	if h == nil {
		r.hook.Store(nil)
		return
	}
	r.hook.Store(&h)
}

func event(id instance.ID, s instance.State) ec2event.Event {
	return ec2event.Event{Kind: ec2event.KindStateChange, InstanceID: id, State: s, Time: time.Now()}
}

// handle handles an event and wants it settled with the result.
func (r *replica) handle(id instance.ID, s instance.State, want string) {
	r.w.t.Helper()
	got, err := r.Handle(context.Background(), event(id, s))
	if err != nil || got != want {
		r.w.t.Errorf("%s %s: %q, %v; want %q", id, s, got, err, want)
	}
}

// admit lets the instance be running and wants it to get a key and a token.
func (r *replica) admit(id instance.ID) {
	r.w.t.Helper()
	if !r.w.ec2.alive(id) {
		r.w.ec2.launch(id)
	}
	r.handle(id, instance.Running, "admitted")
}

// grant fetches as the instance would.
func (r *replica) grant(id instance.ID) lifecycle.Grant {
	r.w.t.Helper()
	g, err := r.Grant(context.Background(), id)
	if err != nil {
		r.w.t.Errorf("grant to %s: %v", id, err)
		return g
	}
	r.w.truth.given(r.w, id, g)
	return g
}

// reconcile makes passes, with time between them.
func (r *replica) reconcile(passes int) {
	for i := range passes {
		if i > 0 {
			time.Sleep(interval)
		}
		r.Reconcile(context.Background())
	}
}

// counter is the value of one of the replica's counters.
func (r *replica) counter(name string, labelValues ...string) float64 {
	r.w.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, pair := range m.GetLabel() {
				values = append(values, pair.GetValue())
			}
			if !slices.Equal(values, labelValues) {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue()
		}
	}
	r.w.t.Errorf("no metric %s %v", name, labelValues)
	return 0
}

func (r *replica) wantCorrections(kinds ...string) {
	r.w.t.Helper()
	want := map[string]float64{}
	for _, kind := range kinds {
		want[kind]++
	}
	for _, kind := range []string{"admitted", "retired", "closed", "token_renewed", "token_revoked", "label_restored", "surplus_key_released", "surplus_token_revoked"} {
		if got := r.counter("dynk8s_reconcile_corrections_total", kind); got != want[kind] {
			r.w.t.Errorf("%v corrections %s, want %v", got, kind, want[kind])
		}
	}
}

// makeKeys adds free keys.
func (w *world) makeKeys(names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.keys.Create(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}},
			Type:       wireguardkey.SecretType,
			Data:       map[string][]byte{"wireguard-config": []byte(configOf(name))},
		}, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

const privatePart = "uCpnd4bYGZzNGrx"

func configOf(key string) string {
	return "[Interface]\nPrivateKey = " + privatePart + "\n# " + key + "\n"
}

func keyOf(config []byte) string {
	_, name, _ := strings.Cut(string(config), "# ")
	return strings.TrimSpace(name)
}

func list(secrets *apitest.SecretClient) []corev1.Secret {
	all, err := secrets.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	return all.Items
}

// keysOf returns the names of the keys whose label names the instance.
func (w *world) keysOf(id instance.ID) []string {
	var names []string
	for _, s := range list(w.keys) {
		if s.Labels[label] == string(id) {
			names = append(names, s.Name)
		}
	}
	return names
}

// claimsOf returns the token Secrets of the instance.
func (w *world) claimsOf(id instance.ID) []corev1.Secret {
	return slices.DeleteFunc(list(w.tokens), func(s corev1.Secret) bool { return s.Labels[label] != string(id) })
}

// wantComplete checks that the instance has one token and the key it names.
func (w *world) wantComplete(ids ...instance.ID) {
	w.t.Helper()
	for _, id := range ids {
		keys, claims := w.keysOf(id), w.claimsOf(id)
		if len(keys) != 1 || len(claims) != 1 || claims[0].Annotations[claimedKey] != keys[0] || expired(claims[0]) {
			w.t.Errorf("%s has keys %v and claims %v, want one of each", id, keys, describe(claims))
		}
	}
}

// wantNothing checks that nothing names the instance, not even a lost label.
func (w *world) wantNothing(ids ...instance.ID) {
	w.t.Helper()
	for _, id := range ids {
		for _, s := range append(list(w.keys), list(w.tokens)...) {
			for _, value := range slices.Concat(slices.Collect(maps.Values(s.Labels)), slices.Collect(maps.Values(s.Annotations))) {
				if value == string(id) {
					w.t.Errorf("%s is left with %s: %v %v", id, s.Name, s.Labels, s.Annotations)
				}
			}
		}
	}
}

func describe(claims []corev1.Secret) []string {
	var out []string
	for _, s := range claims {
		out = append(out, fmt.Sprintf("%s → %s until %s", s.Name, s.Annotations[claimedKey], s.Data["expiration"]))
	}
	return out
}

func expired(claim corev1.Secret) bool {
	at, err := time.Parse(time.RFC3339, string(claim.Data["expiration"]))
	return err != nil || !time.Now().Before(at)
}

// editKey and editClaim are the operator's hands.
func (w *world) editKey(name string, f func(*corev1.Secret)) { w.edit(w.keys, name, f) }

func (w *world) editClaim(id instance.ID, f func(*corev1.Secret)) {
	for _, s := range w.claimsOf(id) {
		w.edit(w.tokens, s.Name, f)
	}
}

func (w *world) edit(secrets *apitest.SecretClient, name string, f func(*corev1.Secret)) {
	w.t.Helper()
	s, err := secrets.Get(context.Background(), name, metav1.GetOptions{})
	if err == nil {
		f(s)
		_, err = secrets.Update(context.Background(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// removeClaims deletes the instance's tokens, as the token cleaner does.
func (w *world) removeClaims(id instance.ID) {
	for _, s := range w.claimsOf(id) {
		if err := w.tokens.Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			w.t.Error(err)
		}
	}
}

// join makes the Node of the instance.
func (w *world) join(id instance.ID, ready corev1.ConditionStatus) {
	w.t.Helper()
	w.joinAs(string(id), id, ready)
}

// joinAs makes a Node of any name that says to be the instance's.
func (w *world) joinAs(name string, id instance.ID, ready corev1.ConditionStatus) {
	w.t.Helper()
	_, err := w.nodes.Create(context.Background(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: string(id)}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-2a/" + string(id)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{readiness(ready)}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// readiness is the condition as of now, in whole seconds as the API server
// stores it.
func readiness(status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))}
}

func (w *world) setReady(id instance.ID, status corev1.ConditionStatus) {
	w.t.Helper()
	w.editNode(string(id), func(n *corev1.Node) { n.Status.Conditions[0] = readiness(status) })
}

func (w *world) editNode(name string, f func(*corev1.Node)) {
	w.t.Helper()
	n, err := w.nodes.Get(context.Background(), name, getOptions)
	if err == nil {
		f(n)
		_, err = w.nodes.Update(context.Background(), n, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) hasNode(id instance.ID) bool {
	_, err := w.nodes.Get(context.Background(), string(id), metav1.GetOptions{})
	return err == nil
}

// versions are the resource versions of all Secrets: they move with every write.
func (w *world) versions() map[string]string {
	out := map[string]string{}
	for _, s := range append(list(w.keys), list(w.tokens)...) {
		out[s.Name] = s.ResourceVersion
	}
	return out
}

func (w *world) wantNoSecretsLogged() {
	text := w.log.String()
	secrets := []string{privatePart}
	for _, s := range list(w.tokens) {
		secrets = append(secrets, string(s.Data["token-secret"]))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			w.t.Errorf("the log holds a secret")
		}
	}
}

// lockedBuffer may be written to by many. A test may set what happens before a
// line is written, before it starts.
type lockedBuffer struct {
	before func(line string)
	mu     sync.Mutex
	buf    bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	if b.before != nil {
		b.before(string(p))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var (
	getOptions    metav1.GetOptions
	deleteOptions metav1.DeleteOptions
)
