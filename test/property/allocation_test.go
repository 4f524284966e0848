package property

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	maxKeys       = 4
	maxOperations = 5
)

var ours = func() instance.Selector {
	s, err := instance.NewSelector([]instance.Condition{{Key: ourTag, Values: []string{ourValue}}})
	if err != nil {
		panic(err)
	}
	return s
}()

// Two replicas admit, serve, retire and reconcile while instances come and go,
// hands meddle, calls fail, caches lag and processes die, all interleaved at
// every single call. Nothing is given twice, nothing is taken from the living,
// and when it is quiet everybody has what they should.
func TestAllocation(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scenario{
		"anything": {instances: 3, keys: 3},
		// What the protocol is most likely to break on: the claim of one instance
		// comes and goes while it holds several keys and fetches them.
		"claims lost": {instances: 1, keys: 3, only: []string{"delete a token", "label a second key", "kill"}},
		// Keys pass from the dying to those that wait.
		"few keys": {instances: 3, keys: 2, only: []string{"shut down", "die", "kill", "calls may fail", "cache lags"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, s.run) })
		})
	}
}

// scenario bounds what happens in a run.
type scenario struct {
	// instances there may be, and keys at the beginning, at most. A reconcile
	// pass works on eight instances at a time: fewer keep its order out of play.
	instances, keys int
	// only are the actions there may be besides the common ones; nil: any.
	only []string
}

// run is one run, in a time of its own.
func (s scenario) run(t *rapid.T) {
	c := newCluster()
	defer c.killAll() // no goroutine may outlive the bubble
	for range 1 + upTo(s.keys).Draw(t, "keys") {
		c.addKey(t, true)
	}
	for n := range c.replicas {
		c.boot(n)
	}
	c.room = 1 + upTo(s.instances).Draw(t, "instances")
	possible := s.possible(t, c.actions())
	t.Repeat(map[string]func(*rapid.T){
		"":    c.check,
		"act": func(t *rapid.T) { pick(t, "action", possible).do(t) },
	})
	c.settle(t)
	c.checkSettled(t)
	c.endAll(t)
}

// possible draws which actions a run has, and returns each as often as its
// weight says.
func (s scenario) possible(t *rapid.T, actions []action) []action {
	var list []action
	generous := rapid.Bool().Draw(t, "generous hand")
	for _, a := range actions {
		switch {
		case a.common:
		case s.only != nil && !slices.Contains(s.only, a.name):
			continue
		case s.only == nil && a.name == loseLabel && generous, s.only == nil && a.name == labelSecond && !generous:
			continue
		case s.only == nil && !rapid.Bool().Draw(t, a.name):
			continue
		}
		list = append(list, slices.Repeat([]action{a}, a.weight)...)
	}
	return list
}

// An operator's hand loses labels of keys or gives too many, but not both in
// one run: whoever labels another key for an instance and takes the label from
// the one that it uses has given it a second key.
const (
	loseLabel   = "lose a key's label"
	labelSecond = "label a second key"
)

// action is something that may happen.
type action struct {
	name string
	// weight is how often the action happens, beside the others.
	weight int
	// common actions belong to every run. Of the others each run has some only:
	// what all happens at once hides much.
	common bool
	do     func(*rapid.T)
}

func (a action) String() string { return a.name }

func (c *cluster) actions() []action {
	return []action{
		{"let calls go", 20, true, c.letGo},
		{"announce", 6, true, c.announce},
		{"fetch", 4, true, c.askForArtifacts},
		{"reconcile", 3, true, c.reconcile},
		{"launch", 3, true, c.launch},
		{"kill", 2, false, c.killAndBoot},
		{"cache lags", 2, false, c.lag},
		{"cache catches up", 2, true, c.catchUp},
		{"shut down", 2, false, c.shutDown},
		{"die", 3, false, c.die},
		{"forget", 2, false, c.forget},
		{"retag, stop or start", 2, false, c.alter},
		{"EC2 goes blind or not", 2, false, func(*rapid.T) { c.cloud.blind = !c.cloud.blind }},
		{"join", 2, false, c.join},
		{"delete a Node", 2, false, c.deleteNode},
		{"delete a token", 3, false, c.deleteToken},
		{loseLabel, 4, false, c.loseLabel},
		{labelSecond, 4, false, c.labelSecond},
		{"add a key", 1, false, c.addAnotherKey},
		{"time passes", 2, false, c.passTime},
		{"calls may fail", 1, false, func(*rapid.T) { c.failing = !c.failing }},
	}
}

func anyMachine(*machine) bool { return true }

func (c *cluster) someReplica(t *rapid.T) *replica {
	if c.schedule.running() >= maxOperations {
		t.Skip("enough is under way")
	}
	return c.replicas[upTo(replicaCount).Draw(t, "replica")]
}

// letGo lets some calls of one operation go, one after another.
func (c *cluster) letGo(t *rapid.T) {
	chosen := pick(t, "call", c.schedule.held())
	for range 1 + upTo(8).Draw(t, "calls") {
		calls := slices.DeleteFunc(c.schedule.held(), func(other *heldCall) bool {
			return other.operation != chosen.operation || other.replica != chosen.replica
		})
		if len(calls) == 0 {
			return
		}
		call := pick(t, "call of it", calls)
		fault := fine
		if c.failing && oneIn(6).Draw(t, "fails") {
			fault = pick(t, "fault", faults)
		}
		c.schedule.release(call, fault.err)
		c.check(t)
	}
}

// fault is what may become of a call.
type fault struct {
	name string
	err  error
}

func (f fault) String() string { return f.name }

var (
	fine   = fault{name: "fine"}
	faults = []fault{
		{"fails", errDown},
		{"conflicts", apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "any", errDown)},
		{"works, but the answer is lost", apitest.AnswerLost(errDown)},
	}
)

// announce tells a replica of a state that the instance has or had.
func (c *cluster) announce(t *rapid.T) {
	r := c.someReplica(t)
	m := c.cloud.get(pick(t, "instance", c.cloud.all(anyMachine)))
	states := []instance.State{instance.Running, instance.Pending}
	switch m.State {
	case instance.Stopped:
		states = append(states, instance.Stopping, instance.Stopped)
	case instance.ShuttingDown:
		states = append(states, instance.ShuttingDown)
	case instance.Terminated:
		states = append(states, instance.ShuttingDown, instance.Terminated)
	}
	e := ec2event.Event{Kind: ec2event.KindStateChange, InstanceID: m.ID, Time: time.Now(), State: pick(t, "state", states)}
	if oneIn(4).Draw(t, "late") {
		e.Time = e.Time.Add(-2 * goneGrace)
	}
	c.schedule.start(r.ctx, func(ctx context.Context) { _, _ = r.Handle(ctx, e) }) // a failed one is as good as lost
}

func (c *cluster) askForArtifacts(t *rapid.T) {
	r := c.someReplica(t)
	c.fetch(r, pick(t, "instance", c.cloud.all(anyMachine)))
}

func (c *cluster) reconcile(t *rapid.T) {
	r := c.someReplica(t)
	c.schedule.start(r.ctx, func(ctx context.Context) { r.Reconcile(ctx) })
}

func (c *cluster) killAndBoot(t *rapid.T) {
	n := upTo(replicaCount).Draw(t, "replica")
	c.kill(n)
	c.boot(n)
}

func (c *cluster) lag(t *rapid.T) {
	r := c.replicas[upTo(replicaCount).Draw(t, "replica")]
	r.lags = true
	for _, view := range r.views {
		view.Hold()
	}
}

func (c *cluster) catchUp(t *rapid.T) {
	r := c.replicas[upTo(replicaCount).Draw(t, "replica")]
	steps := upTo(4).Draw(t, "steps")
	for _, view := range r.views {
		for range steps {
			view.Step()
		}
	}
	if steps == 0 {
		r.lags = false
		r.catchUp()
	}
}

func (c *cluster) launch(t *rapid.T) {
	if len(c.cloud.all(anyMachine)) >= c.room {
		t.Skip("enough instances")
	}
	id := c.cloud.launch(!oneIn(6).Draw(t, "stranger"))
	t.Logf("launched %s", id)
}

func (c *cluster) shutDown(t *rapid.T) {
	id := pick(t, "living instance", c.cloud.all(func(m *machine) bool { return !m.State.Ending() }))
	c.cloud.change(id, func(m *machine) { m.State = instance.ShuttingDown })
}

func (c *cluster) die(t *rapid.T) {
	id := pick(t, "living instance", c.cloud.all((*machine).living))
	c.cloud.change(id, func(m *machine) { m.State = instance.Terminated })
}

// forget makes an instance that is dead unknown.
func (c *cluster) forget(t *rapid.T) {
	id := pick(t, "dead instance", c.cloud.all(func(m *machine) bool { return !m.living() && !m.forgotten }))
	c.cloud.change(id, func(m *machine) { m.forgotten = true })
}

// alter does to a living instance what must take nothing from it.
func (c *cluster) alter(t *rapid.T) {
	id := pick(t, "living instance", c.cloud.all(func(m *machine) bool { return !m.State.Ending() }))
	value := pick(t, "tag", []string{"", ourValue, "another"})
	c.cloud.change(id, func(m *machine) {
		switch {
		case value != "":
			m.Tags = map[string]string{ourTag: value}
			m.matched = m.matched || value == ourValue
		case m.State == instance.Stopped:
			m.State, m.LaunchTime = instance.Running, time.Now()
		default:
			m.State = instance.Stopped
		}
	})
}

// join lets an instance that has its artifacts appear as a Node, Ready or not,
// or changes whether it is.
func (c *cluster) join(t *rapid.T) {
	id := pick(t, "served instance", c.cloud.all(func(m *machine) bool { return m.State == instance.Running && c.wasServed(m.ID) }))
	status := corev1.ConditionFalse
	if rapid.Bool().Draw(t, "ready") {
		status = corev1.ConditionTrue
	}
	c.putNode(t, id, status)
}

func (c *cluster) putNode(t *rapid.T, id instance.ID, ready corev1.ConditionStatus) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: string(id), Labels: map[string]string{holderLabel: string(id)}},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/%s", zone, id)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now(),
		}}},
	}
	var err error
	if c.nodeOf(id) == nil {
		_, err = c.nodes.Create(context.Background(), n, metav1.CreateOptions{})
	} else {
		_, err = c.nodes.Update(context.Background(), n, metav1.UpdateOptions{})
	}
	ok(t, err)
}

func (c *cluster) deleteNode(t *rapid.T) {
	id := pick(t, "joined instance", c.cloud.all(func(m *machine) bool { return c.nodeOf(m.ID) != nil }))
	ok(t, c.nodes.Delete(context.Background(), string(id), metav1.DeleteOptions{}))
}

// deleteToken is a hand, or the cluster's token cleaner.
func (c *cluster) deleteToken(t *rapid.T) {
	ok(t, c.tokens.Delete(context.Background(), pick(t, "token", names(c.allTokens(t))), metav1.DeleteOptions{}))
}

// loseLabel is a hand that empties or removes the label of a key. A hand is
// slow: the caches have seen what it did before anything else happens. An
// admission that knows nothing of the lost label, while the token is gone as
// well, would choose another key.
func (c *cluster) loseLabel(t *rapid.T) {
	key, err := c.secrets.Get(context.Background(), pick(t, "key", names(c.keys(t))), metav1.GetOptions{})
	ok(t, err)
	if rapid.Bool().Draw(t, "empty it") {
		if key.Labels[holderLabel] == "" {
			t.Skip("it is empty")
		}
		key.Labels[holderLabel] = ""
	} else {
		delete(key.Labels, holderLabel)
	}
	_, err = c.secrets.Update(context.Background(), key, metav1.UpdateOptions{})
	ok(t, err)
	for _, r := range c.replicas {
		r.catchUp()
	}
}

// labelSecond is a hand that labels a free key for an instance that has one.
func (c *cluster) labelSecond(t *rapid.T) {
	keys := c.keys(t)
	var holders []string
	for _, key := range keys {
		if holder := key.Labels[holderLabel]; holder != "" && !c.cloud.dead(instance.ID(holder)) {
			holders = append(holders, holder)
		}
	}
	key := pick(t, "key", slices.DeleteFunc(keys, func(key corev1.Secret) bool { return !isFree(key) }))
	key.Labels[holderLabel] = pick(t, "holder", holders)
	_, err := c.secrets.Update(context.Background(), &key, metav1.UpdateOptions{})
	ok(t, err)
}

func (c *cluster) addAnotherKey(t *rapid.T) {
	if c.keyCount >= maxKeys {
		t.Skip("enough keys")
	}
	c.addKey(t, !oneIn(4).Draw(t, "unusable"))
}

func (c *cluster) passTime(t *rapid.T) {
	time.Sleep(pick(t, "time", []time.Duration{time.Second, 3 * time.Minute, goneGrace, tokenLife}))
}

// settle ends all faults, lets everything run to its end and gives every
// replica two passes. The Nodes of the dead are Ready no longer, as the node
// lifecycle controller would see to.
func (c *cluster) settle(t *rapid.T) {
	c.cloud.blind = false
	for _, id := range c.cloud.all(func(m *machine) bool { return !m.living() && c.nodeOf(m.ID) != nil }) {
		c.putNode(t, id, corev1.ConditionUnknown)
	}
	for _, r := range c.replicas {
		r.lags = false
		r.catchUp()
	}
	c.schedule.finish()
	c.check(t)
	for range 2 {
		for _, r := range c.replicas {
			c.schedule.start(r.ctx, func(ctx context.Context) { r.Reconcile(ctx) })
			c.schedule.finish()
			c.check(t)
		}
		time.Sleep(goneGrace + time.Minute)
	}
}

// endAll lets those that wait to join fetch what they need, whatever they were
// handed before, and then all die.
func (c *cluster) endAll(t *rapid.T) {
	held, _ := c.holdings(t)
	for _, id := range c.cloud.all(anyMachine) {
		c.fetch(c.replicas[0], id)
		c.schedule.finish()
		if h := held[id]; c.waits(t, id) && len(h.claims) > 0 && c.lastServed != id {
			t.Fatalf("%s has %+v and is not served", id, h)
		}
	}
	c.check(t)
	for _, id := range c.cloud.all(anyMachine) {
		c.cloud.change(id, func(m *machine) { m.State = instance.Terminated })
	}
	c.settle(t)
	c.checkSettled(t)
}
