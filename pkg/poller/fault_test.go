package poller

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

// times fails an op the first n times.
func times(n int, op sqsqueuetest.Op, err error) func(sqsqueuetest.Op) error {
	var asked atomic.Int64
	return func(o sqsqueuetest.Op) error {
		if o == op && asked.Add(1) <= int64(n) {
			return err
		}
		return nil
	}
}

func TestPanickingHandlerHarmsNobodyAndTellsNoSecret(t *testing.T) {
	const secret = "5emitj.kq4gihvszzgn1p0r"
	panics := map[string]func(){
		"a string":    func() { panic("token " + secret) },
		"an error":    func() { panic(errors.New(secret)) },
		"nil pointer": func() { var e *ec2event.Event; _ = e.ID },
	}
	for name, explode := range panics {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				first := true
				r := &recorder{t: t, handle: func(_ context.Context, e ec2event.Event) (string, error) {
					if e.InstanceID == instanceID(1) && first {
						first = false
						explode()
					}
					return "", nil
				}}
				d := start(t, q, r)
				q.Send(change(1, instance.Running))
				q.Send(change(2, instance.Running))
				advance(20 * time.Second)
				wantEmpty(t, q)
				wantCalls(t, r, 3)
				if d.outcome("retry") != 1 {
					t.Error("not counted as a retry")
				}
				lines := d.logs.lines("handler panicked")
				if len(lines) != 1 || !strings.Contains(lines[0]["err"].(string), "fault_test.go") {
					t.Errorf("log: %s", d.logs)
				}
				if strings.Contains(d.logs.String(), secret) {
					t.Error("the log holds the secret")
				}
			})
		})
	}
}

func TestHandlerIsToldWhenItsTimeIsOver(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(time.Hour)}
		start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(2*time.Minute + time.Second)
		if calls := r.done(); len(calls) != 1 || !errors.Is(calls[0].err, context.DeadlineExceeded) {
			t.Errorf("calls: %v", calls)
		}
	})
}

func TestEntriesOfADeleteThatFailOrAreLeftOutAreTriedAgain(t *testing.T) {
	for _, code := range []string{"InternalError", sqsqueuetest.Omit} {
		t.Run(code, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				fails := map[string]int{"message-3": 1, "message-7": 3}
				q.SetFaults(sqsqueuetest.Faults{Entry: func(op sqsqueuetest.Op, id string) string {
					if fails[id]--; op == sqsqueuetest.Delete && fails[id] >= 0 {
						return code
					}
					return ""
				}})
				for n := range 10 {
					q.Send(change(n, instance.Running))
				}
				r := &recorder{t: t}
				start(t, q, r)
				advance(5 * time.Second)
				wantEmpty(t, q)
				wantCalls(t, r, 10)
				if n := len(q.Journal(sqsqueuetest.Delete)); n != 14 {
					t.Errorf("%d entries for 10 messages", n)
				}
			})
		})
	}
}

func TestFailedAndLostCallsAreMadeAgain(t *testing.T) {
	failure := errors.New("connection reset")
	tests := map[string]struct {
		faults sqsqueuetest.Faults
		err    error
	}{
		"delete refused":     {faults: sqsqueuetest.Faults{Refuse: times(4, sqsqueuetest.Delete, failure)}},
		"delete answer lost": {faults: sqsqueuetest.Faults{Lose: times(4, sqsqueuetest.Delete, failure)}},
		"delay refused":      {faults: sqsqueuetest.Faults{Refuse: times(4, sqsqueuetest.Change, failure)}, err: tooYoung{50 * time.Second}},
		"delay answer lost":  {faults: sqsqueuetest.Faults{Lose: times(4, sqsqueuetest.Change, failure)}, err: tooYoung{50 * time.Second}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				q.SetFaults(tt.faults)
				r := &recorder{t: t, handle: failing(tt.err)}
				start(t, q, r)
				q.Send(change(1, instance.Running))
				advance(40 * time.Second)
				wantCalls(t, r, 1)
				if tt.err == nil {
					wantEmpty(t, q)
					return
				}
				if n := len(q.Visible()); n != 0 {
					t.Error("message is visible before its time")
				}
				advance(20 * time.Second)
				wantCalls(t, r, 2)
			})
		})
	}
}

func TestMessageThatCannotBeDeletedIsLeftToComeAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(sqsqueuetest.Faults{Refuse: times(1000, sqsqueuetest.Delete, errors.New("access denied"))})
		r := &recorder{t: t}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(30 * time.Second)
		if d.poller.hand.size() != 0 {
			t.Error("still in hand")
		}
		if n := len(d.logs.lines("giving up on settling a message; it comes again after its visibility timeout")); n != 1 {
			t.Errorf("%d lines say so", n)
		}
		q.SetFaults(sqsqueuetest.Faults{})
		advance(visibility)
		wantEmpty(t, q)
		wantCalls(t, r, 2)
	})
}

// The server answers 200 and hands messages out, then the connection breaks.
func TestReceiveThatFailsAfterHandingOutLosesNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		for n := range 10 {
			q.Send(change(n, instance.Running))
		}
		q.SetFaults(sqsqueuetest.Faults{Lose: times(1, sqsqueuetest.Receive, errors.New("read: use of closed network connection"))})
		r := &recorder{t: t}
		start(t, q, r)
		advance(visibility - time.Second)
		wantCalls(t, r, 0)
		advance(2 * time.Second)
		wantCalls(t, r, 10)
		wantEmpty(t, q)
	})
}

func TestFailingReceivesGoOnForEverAtMostHalfAMinuteApart(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		var at []time.Time
		down := true
		q.SetFaults(sqsqueuetest.Faults{Refuse: func(op sqsqueuetest.Op) error {
			if op == sqsqueuetest.Receive && down {
				at = append(at, time.Now())
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		r := &recorder{t: t}
		d := start(t, q, r)
		advance(2 * time.Hour)
		if !d.poller.LastReceive().IsZero() {
			t.Error("there was no good receive yet")
		}
		if n := len(at); n < 240 || n > 900 {
			t.Errorf("%d tries in two hours", n)
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap > 30*time.Second {
				t.Errorf("%v between tries", gap)
			}
		}
		down = false
		q.Send(change(1, instance.Running))
		advance(31 * time.Second)
		wantEmpty(t, q)
		wantCalls(t, r, 1)
		if time.Since(d.poller.LastReceive()) > 31*time.Second {
			t.Errorf("last receive: %v", d.poller.LastReceive())
		}
	})
}

// hastyQueue answers every receive at once, with nothing.
type hastyQueue struct {
	Queue
	receives int
}

func (q *hastyQueue) Receive(context.Context, int) ([]sqsqueue.Message, error) {
	q.receives++
	return nil, nil
}

func TestQueueThatDoesNotWaitIsNotAskedWithoutPause(t *testing.T) {
	in(t, func(t *testing.T) {
		q := &hastyQueue{}
		d := startOver(t, q, &recorder{t: t})
		advance(time.Minute)
		if q.receives > 241 {
			t.Errorf("asked %d times in a minute", q.receives)
		}
		if time.Since(d.poller.LastReceive()) > time.Second {
			t.Error("an empty receive is a good one")
		}
	})
}

func TestAPIServerDownForHalfAMinute(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		began := time.Now()
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			if down := time.Since(began); down > 10*time.Second && down < 40*time.Second {
				return "", errors.New("connection refused")
			}
			return "", nil
		}}
		start(t, q, r)
		for n := range 60 {
			q.Send(change(n, instance.Running))
			advance(time.Second)
		}
		advance(3 * time.Minute)
		wantEmpty(t, q)
	})
}
