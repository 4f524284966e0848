//go:build linux

package system

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// A hundred instances are announced five times each, in no order, to two
// replicas of which one is killed every two seconds: each ends with one key and
// one token, and no message is left or dead. The same for their end.
func TestStormWithAReplicaKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const instances, times = 100, 5
	random := newRandom(t)
	w := newWorld(t, stack.MaxReceiveCount(50))
	w.addKeys(instances + 10)
	w.start(slowReconcile)
	ids := w.launch(instances)
	strangers, err := w.ec2.LaunchMany(w.ctx, 10, map[string]string{"Name": "k8s-stranger"})
	must(t, err)

	killed := w.killAgainAndAgain(2 * time.Second)
	w.announceShuffled(random, instance.Running, times, append(strangers, ids...))
	w.eventually("all provisioned", func() error { return w.provisioned(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	must(t, w.provisioned(ids...))
	must(t, w.takenBack(strangers...))

	must(t, w.ec2.Terminate(w.ctx, ids...))
	w.announceShuffled(random, instance.Terminated, times, ids)
	w.eventually("all taken back", func() error { return w.takenBack(ids...) })
	w.eventuallyWithin(3*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	if n := killed(); n == 0 {
		t.Error("no replica was killed")
	} else {
		t.Logf("a replica was killed %d times", n)
	}
}

// killAgainAndAgain runs a replica that is killed and started again at that
// interval, until the returned function is called; it says how often.
func (w *world) killAgainAndAgain(every time.Duration) (stop func() int) {
	w.t.Helper()
	d := w.startNamed("victim", w.configText(slowReconcile), nil)
	done, ended := make(chan struct{}), make(chan int)
	go func() {
		kills := 0
		defer func() { ended <- kills }()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			d.Kill()
			kills++
			var err error
			if d, err = daemon.Start(w.ctx, d.Options()); err != nil {
				w.t.Errorf("start the killed replica again: %v", err)
				return
			}
		}
	}()
	stop = sync.OnceValue(func() int {
		close(done)
		kills := <-ended
		w.stop(d)
		return kills
	})
	w.t.Cleanup(func() { stop() }) // also when the test fails in the middle
	return stop
}

// announceShuffled announces the state of each instance so many times, all in
// random order.
func (w *world) announceShuffled(random *rand.Rand, state instance.State, times int, ids []instance.ID) {
	w.t.Helper()
	var changes []ec2world.Change
	for _, id := range ids {
		for range times {
			changes = append(changes, ec2world.Change{ID: id, State: state})
		}
	}
	random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	must(w.t, w.ec2.AnnounceAll(w.ctx, w.path, changes...))
}

// The pool is smaller than the demand: nobody holds two keys, no key is held
// twice, and each released key goes to one that waits, at once and not when its
// message comes again.
func TestExhaustedPoolWaitsForAReleasedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stack.MaxReceiveCount(50))
	w.addKeys(2)
	w.start(slowReconcile)
	w.start(slowReconcile)
	ids := w.launch(4)
	w.announce(instance.Running, ids...)
	var lucky, waiting []instance.ID
	w.eventually("both keys allocated", func() error {
		held, err := w.keysOf()
		if err != nil {
			return err
		}
		if len(held) != 2 {
			return fmt.Errorf("%d instances hold keys", len(held))
		}
		lucky, waiting = nil, nil
		for _, id := range ids {
			if len(held[id]) == 1 {
				lucky = append(lucky, id)
			} else {
				waiting = append(waiting, id)
			}
		}
		return nil
	})
	w.eventually("the others wait, without a token", func() error {
		if err := w.takenBack(waiting...); err != nil {
			return err
		}
		if err := w.provisioned(lucky...); err != nil {
			return err
		}
		return w.sawEvent("WireGuardKeysExhausted")
	})
	begun := time.Now()
	w.terminate(lucky...)
	w.eventually("the waiting ones have them", func() error { return w.provisioned(waiting...) })
	// Exhausted messages come again after two minutes at the earliest.
	if took := time.Since(begun); took > 90*time.Second {
		t.Errorf("it took %s until released keys were given on", took)
	}
}

// A key that is added to an exhausted pool goes to the instance that waits.
func TestExhaustedPoolTakesAnAddedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(slowReconcile)
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("exhaustion told", func() error { return w.sawEvent("WireGuardKeysExhausted") })
	must(t, w.takenBack(id))
	w.addKeys(1)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	w.eventually("told", func() error { return w.sawEvent("WireGuardKeyAllocated") })
}
