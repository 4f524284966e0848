package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

func states(calls []call) (out []string) {
	for _, c := range calls {
		out = append(out, string(c.state))
	}
	return out
}

func TestEventsOfOneInstanceAreHandledOneAfterAnotherInArrivalOrder(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(time.Second)}
		start(t, q, r)
		order := []instance.State{instance.Terminated, instance.Running, instance.Pending, instance.ShuttingDown}
		var want []string
		for _, s := range order {
			q.Send(change(1, s))
			want = append(want, string(s))
		}
		advance(10 * time.Second)
		wantEmpty(t, q)
		if got := states(r.done()); !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
	})
}

func TestTerminatedBeforeRunningThenRunningAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t}
		start(t, q, r)
		for _, s := range []instance.State{instance.Terminated, instance.Running, instance.Running} {
			q.Send(change(1, s))
			advance(5 * time.Second)
		}
		wantEmpty(t, q)
		if got := fmt.Sprint(states(r.done())); got != "[terminated running running]" {
			t.Errorf("handled %v", got)
		}
	})
}

func TestWaitingDuplicatesAreSettledByOnePass(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(3 * time.Second)}
		d := start(t, q, r)
		body := change(1, instance.Running)
		for range 5 {
			q.Send(body)
		}
		advance(time.Second)
		q.Send(body) // while the pass runs
		q.Send(change(1, instance.Terminated))
		advance(10 * time.Second)
		wantEmpty(t, q)
		if got := fmt.Sprint(states(r.done())); got != "[running terminated]" {
			t.Errorf("handled %v", got)
		}
		if d.outcome("duplicate") != 5 || d.outcome("done") != 2 {
			t.Errorf("duplicate %d, done %d", d.outcome("duplicate"), d.outcome("done"))
		}
	})
}

func TestLaterEventOfTheSameStateGetsAPassOfItsOwn(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(10 * time.Second)}
		start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(5 * time.Second)
		q.Send(change(1, instance.Running)) // stopped and started meanwhile: the pass cannot know
		advance(20 * time.Second)
		wantEmpty(t, q)
		wantCalls(t, r, 2)
	})
}

func TestFailedPassPutsItsDuplicatesBackToo(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var up atomic.Bool
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			time.Sleep(time.Second)
			if !up.Load() {
				return "", errors.New("API server is down")
			}
			return "", nil
		}}
		start(t, q, r)
		for range 5 {
			q.Send(change(1, instance.Running))
		}
		advance(1500 * time.Millisecond)
		wantCalls(t, r, 1)
		if n := len(delays(q)); n != 5 {
			t.Errorf("%d messages put back", n)
		}
		up.Store(true)
		advance(time.Minute)
		wantEmpty(t, q)
	})
}

func TestHandlersRunSideBySideButNoMoreThanAllowed(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(time.Second)}
		start(t, q, r, func(c *Config) { c.Concurrency = 7 })
		for n := range 70 {
			q.Send(change(n, instance.Running))
		}
		advance(10200 * time.Millisecond)
		wantEmpty(t, q)
		wantCalls(t, r, 70)
		if r.most != 7 {
			t.Errorf("up to %d handlers at once", r.most)
		}
	})
}

func TestNothingIsReceivedWhileEveryWorkerIsBusy(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.MaxMessages = 1
		start(t, q, &recorder{t: t, handle: takes(time.Minute)}, func(c *Config) { c.Concurrency = 3 })
		for n := range 20 {
			q.Send(change(n, instance.Running))
		}
		advance(30 * time.Second)
		if n := len(q.Visible()); n != 17 {
			t.Errorf("%d messages left for others, want 17", n)
		}
	})
}

func TestHeldUpInstanceAndItsDuplicatesLeaveRoomForOthers(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var held atomic.Bool
		r := &recorder{t: t, handle: func(ctx context.Context, e ec2event.Event) (string, error) {
			if e.InstanceID == instanceID(0) && held.CompareAndSwap(false, true) {
				return takes(5*time.Minute)(ctx, e)
			}
			return "", nil
		}}
		d := start(t, q, r, patient, func(c *Config) { c.Concurrency = 2 })
		for n := range 200 {
			q.Send(change(0, instance.Running))
			if n%10 == 9 {
				q.Send(change(n, instance.Running))
			}
		}
		advance(20 * time.Second)
		if n := len(r.done()); n != 20 {
			t.Errorf("%d of 20 other instances handled", n)
		}
		if n := d.poller.hand.size(); n > perInstance+1 {
			t.Errorf("%d messages in hand for one instance", n)
		}
		if d.outcome("crowded") < 180 {
			t.Errorf("%d given back", d.outcome("crowded"))
		}
		advance(30 * time.Minute)
		wantEmpty(t, q)
	})
}

func TestMessagesInHandAreBoundedWhateverTheQueueDoes(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var works atomic.Bool
		q.SetFaults(sqsqueuetest.Faults{Before: func(op sqsqueuetest.Op) time.Duration {
			if op == sqsqueuetest.Delete && !works.Load() {
				return time.Hour
			}
			return 0
		}})
		var most atomic.Int64
		var d *daemon
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			most.Store(max(most.Load(), int64(d.poller.hand.size())))
			return "", nil
		}}
		d = start(t, q, r, func(c *Config) { c.Concurrency = 2 })
		for n := range 300 {
			q.Send(change(n, instance.Running))
		}
		advance(time.Minute)
		if n := most.Load(); n > 40 || n < 20 {
			t.Errorf("up to %d messages in hand, want at most 40", n)
		}
		works.Store(true)
		advance(10 * time.Minute)
		wantEmpty(t, q)
	})
}
