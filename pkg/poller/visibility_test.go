package poller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

func patient(c *Config) { c.HandleTimeout = time.Hour }

// delayed makes one op travel d before and after the queue does it.
func delayed(op sqsqueuetest.Op, d time.Duration) sqsqueuetest.Faults {
	travel := func(o sqsqueuetest.Op) time.Duration {
		if o == op {
			return d
		}
		return 0
	}
	return sqsqueuetest.Faults{Before: travel, After: travel}
}

func TestMessagesInWorkStayHiddenHoweverLongItTakes(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(10 * time.Minute)}
		start(t, q, r, patient)
		for n := range 8 {
			q.Send(change(n, instance.Running))
			q.Send(change(n, instance.ShuttingDown)) // waits meanwhile
		}
		advance(time.Minute)
		if n := len(q.Journal(sqsqueuetest.Receive)); n != 16 {
			t.Errorf("%d receives", n)
		}
		advance(20*time.Minute + time.Second)
		wantEmpty(t, q)
		wantCalls(t, r, 16)
		if n := len(q.Journal(sqsqueuetest.Receive)); n != 16 {
			t.Errorf("%d receives of 16 messages", n)
		}
		for _, c := range q.Journal(sqsqueuetest.Change) {
			if c.For != visibility || !c.Done {
				t.Errorf("unexpected %+v", c)
			}
		}
	})
}

// wantNothingAfterTheEnd checks that after a message's delete or delay nothing was said of
// it with the same receipt handle.
func wantNothingAfterTheEnd(t *testing.T, q *sqsqueuetest.Queue, visibility time.Duration) {
	t.Helper()
	ended := map[string]sqsqueuetest.Record{}
	for _, r := range q.Journal("") {
		switch {
		case r.Op == sqsqueuetest.Receive || r.Op == sqsqueuetest.Attributes:
		case r.Op == sqsqueuetest.Change && r.For == visibility:
			if end, ok := ended[r.Receipt]; ok {
				t.Errorf("extended at %v after %+v", r.At, end)
			}
		default:
			ended[r.Receipt] = r
		}
	}
}

func TestSlowExtensionIsNotOvertakenByTheEndItWasMadeFor(t *testing.T) {
	for name, err := range map[string]error{"delete": nil, "delay": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				q.SetFaults(delayed(sqsqueuetest.Change, 3*time.Second))
				r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
					time.Sleep(31 * time.Second) // one second into the extension
					return "", err
				}}
				start(t, q, r)
				q.Send(change(1, instance.Running))
				advance(42 * time.Second)
				journal := q.Journal("")
				if len(journal) < 3 || journal[1].For != visibility {
					t.Fatalf("no extension and then an end: %+v", journal)
				}
				wantNothingAfterTheEnd(t, q, visibility)
				if err == nil {
					wantEmpty(t, q)
				} else if end := journal[2]; end.Op != sqsqueuetest.Change || end.For > 4*time.Second {
					t.Errorf("not delayed but %+v", end)
				}
			})
		})
	}
}

func TestSlowExtensionsBlockNeitherHandlersNorDeletes(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(delayed(sqsqueuetest.Change, time.Hour)) // every call runs into its time limit
		r := &recorder{t: t, handle: func(ctx context.Context, e ec2event.Event) (string, error) {
			if e.State == instance.Stopped {
				return takes(2*time.Minute)(ctx, e)
			}
			return "", nil
		}}
		start(t, q, r, patient)
		for n := range 8 {
			q.Send(change(n, instance.Stopped))
		}
		advance(35 * time.Second)
		id := q.Send(change(100, instance.Running))
		advance(time.Second)
		if n := len(r.done()); n != 1 {
			t.Errorf("%d events handled, want the quick one", n)
		}
		for _, left := range q.Left() {
			if left == id {
				t.Error("the quick one was not deleted")
			}
		}
	})
}

func TestFailedExtensionIsTriedAgainWhileThereIsTime(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var changes atomic.Int64
		q.SetFaults(sqsqueuetest.Faults{Refuse: func(op sqsqueuetest.Op) error {
			if op == sqsqueuetest.Change && changes.Add(1)%3 != 0 {
				return errors.New("throttled")
			}
			return nil
		}})
		r := &recorder{t: t, handle: takes(10 * time.Minute)}
		start(t, q, r, patient)
		q.Send(change(1, instance.Running))
		advance(11 * time.Minute)
		wantEmpty(t, q)
		wantCalls(t, r, 1)
		if n := len(q.Journal(sqsqueuetest.Receive)); n != 1 {
			t.Errorf("received %d times", n)
		}
	})
}

func TestMessageReceivedAgainWhileHandledIsHandledOnceAndDeletedByItsNewestHandle(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(5 * time.Second)}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		for range 3 {
			advance(time.Second)
			q.ShowAll()
		}
		advance(3 * time.Second)
		wantEmpty(t, q)
		wantCalls(t, r, 1)
		if d.outcome("redelivered") != 3 {
			t.Errorf("redelivered = %d", d.outcome("redelivered"))
		}
		if deletes := q.Journal(sqsqueuetest.Delete); len(deletes) != 1 || deletes[0].Receipt != "message-1/4" {
			t.Errorf("deletes: %+v", deletes)
		}
	})
}

func TestMessageReceivedAgainWhileItsDeleteIsUnderWayIsDeletedByTheNewHandle(t *testing.T) {
	for name, before := range map[string]time.Duration{"before the queue does it": 600 * time.Millisecond, "given up once": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				r := &recorder{t: t}
				d := start(t, q, r)
				f := delayed(sqsqueuetest.Delete, before)
				q.SetFaults(f)
				q.Send(change(1, instance.Running))
				advance(300 * time.Millisecond)
				q.ShowAll()
				q.SetFaults(sqsqueuetest.Faults{})
				advance(30 * time.Second)
				wantEmpty(t, q)
				wantCalls(t, r, 1)
				if d.outcome("redelivered") != 1 {
					t.Error("the case did not happen")
				}
				if n := d.poller.hand.size(); n != 0 {
					t.Errorf("%d messages in hand", n)
				}
			})
		})
	}
}

func TestMessageReceivedAgainWhileItsDelayIsUnderWayIsDelayedByTheNewHandle(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: failing(tooYoung{5 * time.Minute})}
		start(t, q, r)
		q.SetFaults(delayed(sqsqueuetest.Change, 600*time.Millisecond))
		q.Send(change(1, instance.Running))
		advance(300 * time.Millisecond)
		q.ShowAll()
		advance(2 * time.Minute)
		wantCalls(t, r, 1)
		changes := q.Journal(sqsqueuetest.Change)
		if n := len(changes); n != 2 || changes[0].Done || !changes[1].Done || changes[1].For != 5*time.Minute {
			t.Errorf("changes: %+v", changes)
		}
	})
}

func TestExpiredReceiptHandleIsNotTriedAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var valid atomic.Bool
		q.SetFaults(sqsqueuetest.Faults{Entry: func(op sqsqueuetest.Op, _ string) string {
			if op == sqsqueuetest.Delete && !valid.Load() {
				return "ReceiptHandleIsInvalid"
			}
			return ""
		}})
		r := &recorder{t: t}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(30 * time.Second)
		if n := len(q.Journal(sqsqueuetest.Delete)); n != 1 {
			t.Errorf("%d deletes", n)
		}
		if d.poller.hand.size() != 0 {
			t.Error("still in hand")
		}
		valid.Store(true)
		advance(visibility)
		wantEmpty(t, q)
		wantCalls(t, r, 2)
	})
}

func TestDeletesShareCalls(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var calls atomic.Int64
		q.SetFaults(sqsqueuetest.Faults{Refuse: func(op sqsqueuetest.Op) error {
			if op == sqsqueuetest.Delete {
				calls.Add(1)
			}
			return nil
		}})
		for n := range 100 {
			q.Send(change(n, instance.Running))
		}
		start(t, q, &recorder{t: t})
		advance(100 * time.Millisecond)
		wantEmpty(t, q)
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls to delete 100 messages", n)
		}
	})
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var under, most atomic.Int64
		slow := func(op sqsqueuetest.Op) time.Duration {
			if op != sqsqueuetest.Delete {
				return 0
			}
			most.Store(max(most.Load(), under.Add(1)))
			time.AfterFunc(5*time.Second, func() { under.Add(-1) })
			return 5 * time.Second
		}
		q.SetFaults(sqsqueuetest.Faults{Before: slow})
		for n := range 120 {
			q.Send(change(n, instance.Running))
		}
		start(t, q, &recorder{t: t})
		advance(4 * time.Second)
		if n := most.Load(); n != maxCalls {
			t.Errorf("%d calls at once, want %d", n, maxCalls)
		}
		advance(20 * time.Second)
		wantEmpty(t, q)
	})
}
