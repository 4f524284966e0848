package poller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

func TestHandledMessageIsDeletedAfterAndOnlyAfterItsHandlerReturned(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t, handle: takes(3 * time.Second)}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(2900 * time.Millisecond)
		if n := len(q.Journal(sqsqueuetest.Delete)); n != 0 {
			t.Errorf("%d deletes while the handler runs", n)
		}
		advance(300 * time.Millisecond)
		wantEmpty(t, q)
		wantCalls(t, r, 1)
		if d.outcome("done") != 1 {
			t.Errorf("outcome not counted")
		}
		lines := d.logs.lines("event handled")
		if len(lines) != 1 {
			t.Fatalf("log: %s", d.logs)
		}
		for key, want := range map[string]any{"level": "INFO", "message_id": "message-1", "instance": string(instanceID(1)), "state": "running", "outcome": "done", "receive_count": 1.0} {
			if lines[0][key] != want {
				t.Errorf("log has %s = %v, want %v", key, lines[0][key], want)
			}
		}
	})
}

func TestResultIsTheOutcomeOfTheMetric(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		d := start(t, q, handlerFunc(func(context.Context, ec2event.Event) (string, error) { return "not_ours", nil }))
		q.Send(changeAt(1, instance.Running, time.Now().Add(-time.Minute)))
		q.Send(changeAt(2, instance.Terminated, time.Now().Add(time.Minute))) // its clock is ahead
		advance(time.Second)
		wantEmpty(t, q)
		if d.outcome("not_ours") != 2 {
			t.Errorf("not_ours = %d", d.outcome("not_ours"))
		}
		want := []string{"dynk8s_handle_seconds", "dynk8s_last_receive_timestamp_seconds", "dynk8s_message_age_seconds", "dynk8s_messages_total"}
		if n, err := testutil.GatherAndCount(d.reg, want...); err != nil || n != 5 { // handle: two states
			t.Errorf("%d series, %v", n, err)
		}
		families, _ := d.reg.Gather()
		for _, f := range families {
			if f.GetName() == "dynk8s_message_age_seconds" {
				if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() < 60 || h.GetSampleSum() > 61 {
					t.Errorf("ages: %v", h)
				}
			}
		}
	})
}

// tooYoung is an error with a word and a time of its own.
type tooYoung struct{ after time.Duration }

func (tooYoung) Error() string               { return "instance has no tags yet" }
func (tooYoung) Outcome() string             { return "too_young" }
func (e tooYoung) RetryAfter() time.Duration { return e.after }
func failing(err error) handlerFunc {
	return func(context.Context, ec2event.Event) (string, error) { return "", err }
}
func delays(q *sqsqueuetest.Queue) (ds []time.Duration) {
	for _, r := range q.Journal(sqsqueuetest.Change) {
		ds = append(ds, r.For)
	}
	return ds
}

func TestFailedMessageComesBackAfterAGrowingTimeUntilItIsHandled(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		n := 0
		r := &recorder{t: t, handle: func(context.Context, ec2event.Event) (string, error) {
			if n++; n <= 12 {
				return "", errors.New("API server is down")
			}
			return "", nil
		}}
		d := start(t, q, r)
		q.Send(change(1, instance.Running))
		advance(time.Hour)
		wantEmpty(t, q)
		wantCalls(t, r, 13)
		ds := delays(q)
		if len(ds) != 12 {
			t.Fatalf("delays: %v", ds)
		}
		for i, got := range ds {
			least := min(max(2*time.Second, time.Second<<i), 75*time.Second)
			if most := min(4*time.Second<<i, 5*time.Minute); got < least || got > most {
				t.Errorf("delay %d is %v, want %v to %v", i+1, got, least, most)
			}
		}
		if d.outcome("retry") != 12 || d.outcome("done") != 1 {
			t.Errorf("retry %d, done %d", d.outcome("retry"), d.outcome("done"))
		}
		if lines := d.logs.lines("event not handled; message comes again"); len(lines) != 12 || lines[0]["level"] != "WARN" || lines[0]["err"] != "API server is down" {
			t.Errorf("log: %v", lines)
		}
	})
}

func TestErrorMayNameItsOutcomeAndItsLeastDelay(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		d := start(t, q, failing(fmt.Errorf("admitting: %w", tooYoung{40 * time.Second})))
		q.Send(change(1, instance.Running))
		advance(time.Second)
		if ds := delays(q); len(ds) != 1 || ds[0] != 40*time.Second {
			t.Errorf("delays: %v", ds)
		}
		if d.outcome("too_young") != 1 || d.outcome("retry") != 0 {
			t.Error("outcome is not the error's own word")
		}
	})
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	b := backoffRange{2 * time.Second, 5 * time.Minute}
	for _, receives := range []int{-1, 0, 1, 2, 5, 9, 63, 1 << 40} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := b.after(receives)
			if d < b.min || d > b.max {
				t.Fatalf("%d receives: %v", receives, d)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("%d receives: only %d different times", receives, len(seen))
		}
	}
	if d := (backoffRange{time.Minute, time.Minute}).after(7); d != time.Minute {
		t.Errorf("a range of one value gives %v", d)
	}
}

func TestOddEventsAreDeletedUnhandled(t *testing.T) {
	bodies := map[string]string{
		"another source":    `{"source":"aws.s3","detail-type":"Object Created","detail":{"a":1},"time":"2021-11-11T21:29:54Z"}`,
		"spot interruption": `{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-0123456789abcdef0","instance-action":"terminate"}}`,
		"unknown state":     change(1, "hibernating"),
		"test notification": `{"Service":"AWS Auto Scaling","Time":"2021-11-11T21:29:54Z","Event":"autoscaling:TEST_NOTIFICATION","AutoScalingGroupName":"g"}`,
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				r := &recorder{t: t}
				d := start(t, q, r)
				q.Send(body)
				advance(time.Second)
				wantEmpty(t, q)
				wantCalls(t, r, 0)
				if d.outcome("ignored") != 1 {
					t.Errorf("not counted as ignored; log: %s", d.logs)
				}
			})
		})
	}
}

func TestEveryEnvelopeIsHandled(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		r := &recorder{t: t}
		start(t, q, r)
		q.Send(change(1, instance.Running))
		q.Send(fmt.Sprintf(`{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:us-east-2:123456789012:t","Message":%q}`, change(2, instance.Running)))
		q.Send(fmt.Sprintf(`{"Service":"AWS Auto Scaling","Time":"2021-11-11T21:29:54Z","EC2InstanceId":%q,"LifecycleTransition":"autoscaling:EC2_INSTANCE_LAUNCHING","AutoScalingGroupName":"g","LifecycleHookName":"h","LifecycleActionToken":"t"}`, instanceID(3)))
		advance(time.Second)
		wantEmpty(t, q)
		wantCalls(t, r, 3)
	})
}
