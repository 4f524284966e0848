package poller

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

func noise() string {
	b := make([]byte, 256<<10)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

func malformedBodies() map[string]string {
	withID := func(id string) string {
		return `{"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","detail":{"instance-id":"` + id + `","state":"running"}}`
	}
	return map[string]string{
		"no JSON":     "hello",
		"empty":       "",
		"noise":       noise(),
		"array":       "[1]",
		"base64":      base64.StdEncoding.EncodeToString([]byte(change(1, instance.Running))),
		"empty state": change(1, ""),
		"path as id":  withID("../../etc/passwd"),
		"comma in id": withID("i-01234567,i-89abcdef"),
		"label as id": withID("i-01234567=x"),
		"no detail":   `{"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2"}`,
	}
}

func TestMalformedMessageEndsInTheDeadLetterQueueWithItsReasonInOneLine(t *testing.T) {
	for name, body := range malformedBodies() {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				q := sqsqueuetest.New()
				q.MaxReceives = 7
				r := &recorder{t: t}
				d := start(t, q, r)
				q.Send(body)
				q.Send(change(1, instance.Running))
				advance(time.Minute)
				wantEmpty(t, q)
				wantCalls(t, r, 1)
				if dead := q.Dead(); len(dead) != 1 || dead[0] != "message-1" {
					t.Errorf("dead letters: %v", dead)
				}
				lines := d.logs.lines("message cannot be understood")
				if len(lines) != 7 || d.outcome("malformed") != 7 {
					t.Fatalf("%d lines, %d counted, want one a receive", len(lines), d.outcome("malformed"))
				}
				for i, line := range lines {
					if want := map[bool]string{true: "WARN", false: "DEBUG"}[i == 0]; line["level"] != want || line["err"] == "" {
						t.Errorf("line %d: %v", i, line)
					}
				}
				if n := len(d.logs.String()); n > 64<<10 {
					t.Errorf("the log has %d bytes", n)
				}
			})
		})
	}
}

func TestMalformedMessageIsDiscardedWhenNoRedrivePolicyTakesIt(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		d := start(t, q, &recorder{t: t})
		for range 30 {
			q.Send("hello")
		}
		advance(time.Minute)
		wantEmpty(t, q)
		if n := len(q.Journal(sqsqueuetest.Receive)); n != 5*30 {
			t.Errorf("%d receives of 30 messages, want five each", n)
		}
		if n := len(q.Journal(sqsqueuetest.Attributes)); n != 1 {
			t.Errorf("asked %d times for the redrive policy", n)
		}
		if n := len(d.logs.lines("message discarded: it cannot be understood and no redrive policy takes it")); n != 30 || d.outcome("discarded") != 30 {
			t.Errorf("%d lines, %d counted", n, d.outcome("discarded"))
		}
	})
}

func TestMalformedMessageIsKeptWhileNobodyKnowsTheRedrivePolicy(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		asked := 0
		q.SetFaults(sqsqueuetest.Faults{Refuse: func(op sqsqueuetest.Op) error {
			if op != sqsqueuetest.Attributes {
				return nil
			}
			asked++
			return errors.New("access denied")
		}})
		start(t, q, &recorder{t: t})
		q.Send("hello")
		advance(10 * time.Minute)
		if len(q.Left()) != 1 {
			t.Error("deleted without knowing")
		}
		if asked < 2 || asked > 20 {
			t.Errorf("asked %d times in 10 minutes", asked)
		}
		q.SetFaults(sqsqueuetest.Faults{})
		advance(time.Minute)
		wantEmpty(t, q)
	})
}

func TestMalformedMessageDoesNotHoldUpReceivingWhileTheQueueIsAsked(t *testing.T) {
	in(t, func(t *testing.T) {
		q := sqsqueuetest.New()
		q.SetFaults(delayed(sqsqueuetest.Attributes, 4*time.Second))
		r := &recorder{t: t}
		start(t, q, r, func(c *Config) { c.MalformedLimit = 1 })
		q.Send("hello")
		advance(time.Second)
		q.Send(change(1, instance.Running))
		advance(time.Second)
		wantCalls(t, r, 1)
		advance(10 * time.Second)
		wantEmpty(t, q)
	})
}
