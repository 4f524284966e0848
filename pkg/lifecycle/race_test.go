package lifecycle_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// race is what one random schedule is about.
type race struct {
	keys      int
	instances []instance.ID
	dying     []instance.ID // may die at any moment
	cleaner   bool          // tokens vanish and expire
	labels    bool          // a hand empties labels
	faults    bool          // calls fail, and answers are lost
	reissues  bool          // an operator asks for tokens anew, and nodes flap
	restricts bool          // the profile has labels and taints for nodes
	seeds     int
}

var races = map[string]race{
	"one instance":                    {keys: 3, instances: []instance.ID{instanceA}, seeds: 8},
	"one instance, tokens vanish":     {keys: 3, instances: []instance.ID{instanceA}, cleaner: true, seeds: 12},
	"two instances, the last key":     {keys: 1, instances: []instance.ID{instanceA, instanceB}, cleaner: true, seeds: 12},
	"two instances, one dies":         {keys: 1, instances: []instance.ID{instanceA, instanceB}, dying: []instance.ID{instanceA}, cleaner: true, seeds: 12},
	"three instances, all may happen": {keys: 2, instances: []instance.ID{instanceA, instanceB, instanceC}, dying: []instance.ID{instanceA, instanceB}, cleaner: true, faults: true, seeds: 12},
	"labels are emptied":              {keys: 3, instances: []instance.ID{instanceA, instanceB}, dying: []instance.ID{instanceA}, cleaner: true, labels: true, faults: true, seeds: 8},
	"one instance, reissued":          {keys: 2, instances: []instance.ID{instanceA}, reissues: true, seeds: 12},
	"reissued, tokens vanish":         {keys: 1, instances: []instance.ID{instanceA, instanceB}, cleaner: true, reissues: true, restricts: true, seeds: 12},
	"reissued, all may happen":        {keys: 2, instances: []instance.ID{instanceA, instanceB, instanceC}, dying: []instance.ID{instanceA, instanceB}, cleaner: true, faults: true, reissues: true, restricts: true, seeds: 12},
	"reissued, labels are emptied":    {keys: 3, instances: []instance.ID{instanceA, instanceB}, dying: []instance.ID{instanceA}, cleaner: true, labels: true, faults: true, reissues: true, seeds: 8},
}

var schedules = flag.Int("schedules", 1, "how many times as many random schedules are tried")

func TestTwoReplicasRace(t *testing.T) {
	t.Parallel()
	for name, rc := range races {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range rc.seeds * *schedules {
				in(t, func(t *testing.T, w *world) { rc.run(w, rand.New(rand.NewPCG(uint64(seed), 7))) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func (rc race) run(w *world, rng *rand.Rand) {
	w.truth.labelsMove, w.truth.twoKeys = rc.labels, rc.labels
	for i := range rc.keys {
		w.makeKeys(fmt.Sprintf("key-%d", i+1))
	}
	for _, id := range rc.instances {
		w.ec2.launch(id)
	}
	s := &schedule{rng: rng}
	replicas := []*replica{w.start(), w.start()}
	for n, r := range replicas {
		r.setHook(s.hook(fmt.Sprint("replica ", n)))
		if rc.restricts {
			r.SetProfiles([]lifecycle.Profile{restricted(w.t)})
		}
		for _, v := range r.allViews() {
			v.Hold()
			s.others = append(s.others, v.Step, v.Step)
		}
		events, fetches := rand.New(rand.NewPCG(rng.Uint64(), 1)), rand.New(rand.NewPCG(rng.Uint64(), 2))
		s.act(func() { rc.handleEvents(w, r, events) })
		s.act(func() { rc.fetch(w, r, fetches) })
		s.act(func() { r.reconcile(1) })
		if rc.reissues {
			operator := rand.New(rand.NewPCG(rng.Uint64(), 3))
			s.act(func() { rc.reissue(w, r, operator) })
		}
	}
	rc.addDisturbances(w, s)
	s.run(func() bool {
		w.truth.check(w)
		return !w.t.Failed()
	})
	rc.settle(w, replicas)
}

// handleEvents plays one replica's share of the messages: duplicates in any
// order, and the end of those that died.
func (rc race) handleEvents(w *world, r *replica, rng *rand.Rand) {
	for range 3 + rng.IntN(3) {
		id := rc.instances[rng.IntN(len(rc.instances))]
		state := instance.Running
		if !w.ec2.alive(id) && rng.IntN(2) == 0 {
			state = instance.Terminated
		}
		_, _ = r.Handle(context.Background(), event(id, state)) // what failed comes again, or a pass repairs it
	}
}

// fetch plays the instances that ask one replica for their artifacts, and then
// perhaps join.
func (rc race) fetch(w *world, r *replica, rng *rand.Rand) {
	for range 3 {
		id := rc.instances[rng.IntN(len(rc.instances))]
		g, err := r.Grant(context.Background(), id)
		if err != nil {
			continue
		}
		w.truth.given(w, id, g)
		if rng.IntN(4) == 0 && w.ec2.alive(id) && !w.hasNode(id) {
			w.join(id, corev1.ConditionTrue)
		}
	}
}

// reissue plays the operator, who is told of a token with the instance's key, or
// of an error.
func (rc race) reissue(w *world, r *replica, rng *rand.Rand) {
	for range 2 {
		id := rc.instances[rng.IntN(len(rc.instances))]
		had := w.truth.keyOf(id)
		got, err := r.Reissue(context.Background(), id)
		if err == nil && had != "" && got.Key != had && w.ec2.alive(id) && !rc.labels {
			w.t.Errorf("%s was given key %s, and a reissue says %s", id, had, got.Key)
		}
	}
}

// flap lets a node go away for a second, if there is one.
func (rc race) flap(w *world, rng *rand.Rand) bool {
	id := rc.instances[rng.IntN(len(rc.instances))]
	if !w.hasNode(id) {
		return false
	}
	w.setReady(id, corev1.ConditionUnknown)
	time.Sleep(time.Second)
	w.setReady(id, corev1.ConditionTrue)
	return true
}

// addDisturbances lets things happen between the calls, a few of each.
func (rc race) addDisturbances(w *world, s *schedule) {
	few := func(n int, f func() bool) func() bool {
		return func() bool {
			if n == 0 {
				return false
			}
			n--
			return f()
		}
	}
	for _, id := range rc.dying {
		s.others = append(s.others, few(1, func() bool { w.ec2.setState(id, instance.Terminated); return true }))
	}
	pick := func(secrets []corev1.Secret) (string, bool) {
		if len(secrets) == 0 {
			return "", false
		}
		return secrets[s.rng.IntN(len(secrets))].Name, true
	}
	if rc.cleaner {
		s.others = append(s.others, few(2, func() bool {
			name, found := pick(list(w.tokens))
			return found && w.tokens.Delete(context.Background(), name, deleteOptions) == nil
		}), few(1, func() bool {
			name, found := pick(list(w.tokens))
			if found {
				w.edit(w.tokens, name, func(c *corev1.Secret) { c.Data["expiration"] = []byte("1999-01-01T00:00:00Z") })
			}
			return found
		}))
	}
	if rc.reissues {
		s.others = append(s.others, few(3, func() bool { return rc.flap(w, s.rng) }))
	}
	if rc.labels {
		s.others = append(s.others, few(2, func() bool {
			name, found := pick(list(w.keys))
			if found {
				w.editKey(name, func(k *corev1.Secret) { k.Labels[label] = "" })
			}
			return found
		}))
	}
	if rc.faults {
		s.fault = func() error {
			switch s.rng.IntN(25) {
			case 0:
				return apierrors.NewInternalError(errors.New("etcd is away"))
			case 1:
				return apitest.AnswerLost(apierrors.NewTimeoutError("late", 1))
			}
			return nil
		}
	}
}

// settle lets the replicas do their work undisturbed and looks at what comes of
// it.
func (rc race) settle(w *world, replicas []*replica) {
	for _, r := range replicas {
		r.setHook(nil)
		for _, v := range r.allViews() {
			v.Release()
		}
	}
	passes := func() {
		for _, r := range replicas {
			r.reconcile(1)
			w.truth.check(w)
		}
		time.Sleep(interval)
	}
	for range 3 {
		passes()
	}
	if rc.reissues { // what the operator asked for ends
		time.Sleep(ttl)
		passes()
	}
	complete, living := 0, 0
	for _, id := range rc.instances {
		if !w.ec2.alive(id) {
			w.wantNothing(id)
			if w.hasNode(id) {
				w.t.Errorf("%s is dead, its node is left", id)
			}
			continue
		}
		living++
		switch keys := w.keysOf(id); {
		case len(keys) > 1 && !rc.labels:
			w.t.Errorf("%s has keys %v", id, keys)
		case len(keys) == 0:
			w.wantNothing(id)
		case w.hasNode(id):
			complete++
			if len(w.claimsOf(id)) > 0 {
				w.t.Errorf("%s has joined and has a token still", id)
			}
			replicas[0].wantClosed(id)
			if rc.restricts {
				w.wantRestricted(string(id), true)
			}
		case len(keys) == 1:
			complete++
			w.wantComplete(id)
			if g, err := replicas[0].Grant(context.Background(), id); err != nil {
				w.t.Errorf("%s is given nothing: %v", id, err)
			} else {
				w.truth.given(w, id, g)
			}
		}
	}
	if want := min(living, rc.keys); complete != want && !rc.labels {
		w.t.Errorf("%d of %d living instances have a key, there are %d", complete, living, rc.keys)
	}
}

// Many goroutines, no schedule: for the race detector.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		const instances = 30
		var ids []instance.ID
		for i := range instances {
			ids = append(ids, instance.ID(fmt.Sprintf("i-%017x", i)))
			w.ec2.launch(ids[i])
			w.makeKeys(fmt.Sprintf("key-%02d", i))
		}
		replicas := []*replica{w.start(), w.start()}
		var stops []func()
		for _, r := range replicas {
			stops = append(stops, r.run())
		}
		done := make(chan struct{})
		for _, id := range ids {
			for _, r := range replicas {
				for range 3 {
					go func() {
						_, _ = r.Handle(context.Background(), event(id, instance.Running))
						if g, err := r.Grant(context.Background(), id); err == nil {
							w.truth.given(w, id, g)
						}
						done <- struct{}{}
					}()
				}
			}
		}
		for range instances * 2 * 3 {
			<-done
		}
		time.Sleep(2 * interval)
		w.wantComplete(ids...)
		w.truth.check(w)
		for _, id := range ids {
			w.ec2.setState(id, instance.Terminated)
			for _, r := range replicas {
				go func() {
					r.handleUntilSettled(id, instance.Terminated)
					done <- struct{}{}
				}()
			}
		}
		for range instances * 2 {
			<-done
		}
		w.wantNothing(ids...)
		for _, stop := range stops {
			stop()
		}
		if free := slices.DeleteFunc(list(w.keys), func(s corev1.Secret) bool { return s.Labels[label] != "" }); len(free) != instances {
			t.Errorf("%d keys are free", len(free))
		}
	})
}
