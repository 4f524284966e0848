package poller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the only round of the random test; 0: other ones each time")
	roundsFlag = flag.Int("rounds", 12, "rounds of the random test")
)

// Of a queue that does all that queues may do, of handlers that do all that
// handlers may do, and of pollers that are stopped and started again, none may
// lose a message, delete one too early, or handle one instance twice at once.
func TestNothingIsLostWhateverHappens(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		round(t, *seedFlag)
		return
	}
	for range *roundsFlag {
		round(t, rand.Uint64()|1)
	}
}

func round(t *testing.T, seed uint64) {
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { newStorm(t, seed).run() })
	})
}

// stormVisibility is none of the times by which a message may be delayed
// (stormBackoff at most, or more than stormVisibility), so that the journal
// shows which change is an extension.
const (
	stormVisibility = 23 * time.Second
	stormBackoff    = 20 * time.Second
)

type storm struct {
	t         *testing.T
	q         *sqsqueuetest.Queue
	recorders []*recorder

	mu   sync.Mutex
	rand *rand.Rand
	calm bool
	sent map[string]sentEvent // by message id, malformed ones left out
}

type sentEvent struct {
	instance    instance.ID
	state       instance.State
	event, sent time.Time
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{t: t, q: sqsqueuetest.New(), rand: rand.New(rand.NewPCG(seed, 0)), sent: map[string]sentEvent{}}
	s.q.SetFaults(sqsqueuetest.Faults{Refuse: s.fault, Lose: s.fault, Before: s.latency, After: s.latency, Entry: s.entry})
	return s
}

func (s *storm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// percent is true so often out of a hundred times, and never once it is calm.
func (s *storm) percent(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.rand.IntN(100) < n
}

func (s *storm) setCalm(calm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = calm
}

func (s *storm) within(d time.Duration) time.Duration { return time.Duration(s.n(int(d))) }

func (s *storm) fault(sqsqueuetest.Op) error {
	if s.percent(5) {
		return errors.New("use of closed network connection")
	}
	return nil
}

func (s *storm) latency(sqsqueuetest.Op) time.Duration {
	switch {
	case s.percent(2):
		return s.within(30 * time.Second)
	case s.percent(30):
		return s.within(time.Second)
	default:
		return 0
	}
}

func (s *storm) entry(sqsqueuetest.Op, string) string {
	switch {
	case s.percent(5):
		return "InternalError"
	case s.percent(3):
		return sqsqueuetest.Omit
	case s.percent(1):
		return "ReceiptHandleIsInvalid"
	default:
		return ""
	}
}

func (s *storm) Handle(ctx context.Context, _ ec2event.Event) (string, error) {
	if s.percent(5) {
		time.Sleep(s.within(80 * time.Second)) // deaf to ctx
	} else if s.percent(70) {
		if _, err := takes(s.within(30*time.Second))(ctx, ec2event.Event{}); err != nil {
			return "", err
		}
	}
	if s.percent(5) {
		panic("bad luck")
	}
	if s.percent(25) {
		return "", errors.New("API server is down")
	}
	return "", nil
}

// send puts messages in, a burst now and then.
func (s *storm) send(n int) {
	states := []instance.State{instance.Pending, instance.Running, instance.ShuttingDown, instance.Terminated}
	for range n {
		if s.percent(40) {
			time.Sleep(s.within(4 * time.Second))
		}
		if s.percent(3) {
			s.q.ShowAll()
		}
		if s.percent(5) {
			s.q.Send("hello")
			continue
		}
		i, state := s.n(12), states[s.n(len(states))]
		at := time.Now().Add(-s.within(10 * time.Second)).Truncate(time.Second)
		s.sent[s.q.Send(changeAt(i, state, at))] = sentEvent{instanceID(i), state, at, time.Now()}
	}
}

// replicas starts one or two pollers.
func (s *storm) replicas() (ds []*daemon) {
	for range 1 + s.n(2) {
		r := &recorder{t: s.t, handle: s.Handle}
		s.recorders = append(s.recorders, r)
		queue := sqsqueue.New(s.q, sqsqueue.Config{VisibilityTimeout: stormVisibility})
		ds = append(ds, startOver(s.t, queue, r, func(c *Config) {
			c.VisibilityTimeout = stormVisibility
			c.MaxBackoff = stormBackoff
			c.Concurrency = 1 + s.n(6)
		}))
	}
	return ds
}

func (s *storm) run() {
	for range 4 {
		ds := s.replicas()
		s.send(60)
		time.Sleep(s.within(time.Minute))
		if orderly := s.n(2) == 0; orderly {
			s.setCalm(true)
			time.Sleep(90 * time.Second)
			s.stopAll(ds)
			s.wantNothingHeldBack()
			s.setCalm(false)
			continue
		}
		s.stopAll(ds)
	}
	s.setCalm(true)
	ds := s.replicas()
	time.Sleep(15 * time.Minute)
	s.stopAll(ds)
	for _, d := range ds {
		if n := d.poller.hand.size(); n != 0 {
			s.t.Errorf("%d messages in hand at the end", n)
		}
	}
	wantEmpty(s.t, s.q)
	s.wantDeletesAfterSuccess()
	wantNothingAfterTheEnd(s.t, s.q, stormVisibility)
}

func (s *storm) stopAll(ds []*daemon) {
	var all sync.WaitGroup
	for _, d := range ds {
		all.Go(func() { d.stop() })
	}
	all.Wait()
}

// wantNothingHeldBack checks, after an undisturbed stop, that the last thing
// the queue heard of a hidden message is not that somebody has it in work.
func (s *storm) wantNothingHeldBack() {
	last := map[string]sqsqueuetest.Record{}
	for _, r := range s.q.Journal("") {
		last[r.MessageID] = r
	}
	for _, id := range s.q.Visible() {
		delete(last, id)
	}
	for _, id := range s.q.Left() {
		if r := last[id]; r.Op == sqsqueuetest.Receive || r.Op == sqsqueuetest.Change && r.For == stormVisibility && r.Done {
			s.t.Errorf("held back after a stop at %v: %+v", time.Now(), r)
		}
	}
}

// wantDeletesAfterSuccess checks that each delete was asked for after a handler
// had returned well that can have known of the event.
func (s *storm) wantDeletesAfterSuccess() {
	for _, r := range s.q.Journal(sqsqueuetest.Delete) {
		m, ok := s.sent[r.MessageID]
		if ok && !s.handled(m, r.At) {
			s.t.Errorf("deleted without success: %+v, %+v", m, r)
		}
	}
}

func (s *storm) handled(m sentEvent, before time.Time) bool {
	for _, r := range s.recorders {
		for _, c := range r.done() {
			if c.err == nil && c.instance == m.instance && c.state == m.state &&
				!c.end.After(before) && !c.end.Before(m.sent) && !c.began.Before(m.event) {
				return true
			}
		}
	}
	return false
}
