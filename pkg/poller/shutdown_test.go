package poller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

func TestIdlePollerHangsUpAfterItsGrace(t *testing.T) {
	in(t, func(t *testing.T) {
		d := start(t, sqsqueuetest.New(), &recorder{t: t})
		advance(5 * time.Second)
		if took := d.stop(); took > hangUpGrace {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestMessagesHandedOutAfterTheSignalAreReleased(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t}
		d := start(t, q, r)
		advance(5 * time.Second)
		d.cancel()
		q.Send(change(1, instance.Running)) // the poll that is under way gets it
		d.stop()
		wantCalls(t, r, 0)
		if n := len(q.Visible()); n != 1 {
			t.Error("the message was not released")
		}
	})
}

func TestShutdownReleasesWhatWaitsAtOnceAndLetsHandlersFinish(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(10 * time.Second)}
		d := start(t, q, r, func(c *Config) { c.Concurrency = 2 })
		for n := range 6 {
			q.Send(change(n, instance.Running))
		}
		advance(2 * time.Second)
		d.cancel()
		advance(100 * time.Millisecond)
		if n := len(q.Visible()); n != 4 {
			t.Errorf("%d of 4 waiting messages released", n)
		}
		took := d.stop()
		if took < 7*time.Second || took > 9*time.Second {
			t.Errorf("stopping took %v, the handlers needed 8 s", took)
		}
		wantCalls(t, r, 2)
		if n := len(q.Left()); n != 4 {
			t.Errorf("%d messages left, want the 4 released", n)
		}
		for _, c := range r.done() {
			if c.err != nil {
				t.Errorf("handler was disturbed: %v", c.err)
			}
		}
	})
}

func TestHandlerThatNeedsTooLongIsToldAndItsMessageReleased(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(time.Minute)}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(time.Second)
		if took := d.stop(); took < 15*time.Second || took > 16*time.Second+hangUpGrace {
			t.Errorf("stopping took %v", took)
		}
		if calls := r.done(); len(calls) != 1 || !errors.Is(calls[0].err, context.Canceled) {
			t.Errorf("calls: %v", calls)
		}
		if n := len(q.Visible()); n != 1 {
			t.Error("message not released")
		}
	})
}

func TestHandlerThatIgnoresItsContextHoldsUpNobody(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			time.Sleep(time.Minute)
			return "", nil
		}}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(time.Second)
		d.stop()
		if n := len(q.Visible()); n != 1 {
			t.Error("message not released")
		}
		advance(time.Minute) // its late success is nothing to us
		if n := len(q.Left()); n != 1 {
			t.Error("message deleted after it was given back")
		}
	})
}

func TestHandlerThatFailsByItselfDuringShutdownIsBackedOff(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		d := start(t, q, &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			time.Sleep(5 * time.Second)
			return "", tooYoung{30 * time.Second}
		}})
		q.Send(change(1, instance.Running))
		advance(time.Second)
		d.stop()
		if ds := delays(q); len(ds) != 1 || ds[0] != 30*time.Second {
			t.Errorf("delays: %v", ds)
		}
	})
}

func TestDeleteUnderWayAtShutdownIsFinished(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(delayed(sqsqueuetest.Delete, 2*time.Second))
		d := start(t, q, &recorder{t: t})
		q.Send(change(1, instance.Running))
		advance(500 * time.Millisecond)
		took := d.stop()
		wantEmpty(t, q)
		if took < 3*time.Second || took > 4*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if d.poller.hand.size() != 0 {
			t.Error("the answer was not waited for")
		}
	})
}

func TestDeleteThatFailsDuringShutdownIsTriedAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(sqsqueuetest.Faults{Refuse: times(3, sqsqueuetest.Delete, errors.New("throttled"))})
		d := start(t, q, &recorder{t: t})
		q.Send(change(1, instance.Running))
		advance(10 * time.Millisecond)
		d.stop()
		wantEmpty(t, q)
	})
}

func TestShutdownEndsInTimeWhenTheQueueHangs(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			time.Sleep(time.Minute)
			return "", nil
		}}
		d := start(t, q, r)
		for n := range 100 {
			q.Send(change(n, instance.Running))
		}
		advance(29 * time.Second)
		hour := func(sqsqueuetest.Op) time.Duration { return time.Hour }
		q.SetFaults(sqsqueuetest.Faults{Before: hour, After: hour})
		advance(2 * time.Second)
		if took := d.stop(); took < 20*time.Second {
			t.Errorf("stopping took only %v", took)
		}
		if n := len(q.Left()); n != 100 {
			t.Errorf("%d messages left, want all", n)
		}
		if n := len(d.logs.lines("stopped with messages unsettled; they come again")); n != 1 {
			t.Errorf("%d lines say so", n)
		}
		advance(time.Minute)
	})
}

func TestMessagesInWorkStayHiddenDuringTheDrain(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(40 * time.Second)}
		d := start(t, q, r, func(c *Config) { c.VisibilityTimeout = 10 * time.Second })
		q.Send(change(1, instance.Running))
		advance(29 * time.Second)
		if took := d.stop(); took < 11*time.Second || took > 12*time.Second {
			t.Errorf("stopping took %v", took)
		}
		wantEmpty(t, q)
		if n := len(q.Journal(sqsqueuetest.Receive)); n != 1 {
			t.Errorf("received %d times", n)
		}
	})
}

func TestUndecidedMalformedMessageIsReleasedAtShutdown(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(delayed(sqsqueuetest.Attributes, time.Hour))
		d := start(t, q, &recorder{t: t}, func(c *Config) { c.MalformedLimit = 1 })
		q.Send("hello")
		advance(time.Second)
		if took := d.stop(); took > time.Second+hangUpGrace {
			t.Errorf("stopping took %v", took)
		}
		if len(q.Visible()) != 1 {
			t.Error("message not released")
		}
	})
}

// lateQueue hands a message out although the receive was cancelled, and its
// calls need a while to notice that they were.
type lateQueue struct {
	Queue
	handedOut bool
	calls     atomic.Int64
	released  atomic.Int64
}

func (q *lateQueue) Receive(ctx context.Context, _ int) ([]sqsqueue.Message, error) {
	<-ctx.Done()
	q.handedOut = true
	return []sqsqueue.Message{{ID: "late", Body: change(1, instance.Running), ReceiveCount: 1}}, nil
}

func (q *lateQueue) ChangeVisibility(ctx context.Context, delays []sqsqueue.Delay) ([]sqsqueue.Delay, error) {
	q.calls.Add(1)
	defer q.calls.Add(-1)
	if delays[0].For == 0 {
		q.released.Add(1)
	}
	<-ctx.Done()
	time.Sleep(time.Second)
	return delays, ctx.Err()
}

func TestMessageThatArrivesWithTheSignalIsReleasedUnhandled(t *testing.T) {
	in(t, func(t *testing.T) {
		q := &lateQueue{}
		r := &recorder{t: t}
		d := startOver(t, q, r)
		advance(time.Second)
		d.stop()
		wantCalls(t, r, 0)
		if !q.handedOut || q.released.Load() == 0 {
			t.Error("message not released")
		}
		if n := q.calls.Load(); n != 0 {
			t.Errorf("%d calls outlive Run", n)
		}
	})
}
