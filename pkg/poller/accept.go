package poller

import (
	"context"
	"fmt"
	"log/slog"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// accept takes one received message in hand and decides what is to happen:
//
//   - received again while in hand: only its newest receipt handle is kept
//   - cannot be understood: given back, or in the end discarded (malformed.go)
//   - about something else: deleted
//   - too many of its instance wait already: given back
//   - else: waits its turn to be handled (pass.go)
func (p *Poller) accept(ctx context.Context, m sqsqueue.Message) {
	body := m.Body
	m.Body = "" // up to 1 MiB that nobody needs any more
	e, fresh := p.hand.add(m)
	if !fresh {
		p.metrics.count(outcomeRedelivered, 1)
		p.log.Debug("message received again while in hand", "message_id", m.ID, "receive_count", m.ReceiveCount)
		return
	}
	event, err := parse(body)
	switch {
	case err != nil:
		p.malformed(ctx, e, m, err)
	case event.Kind != ec2event.KindStateChange:
		p.ignore(e, m, event)
	case !p.hand.enqueue(e, event):
		p.crowded(e, m, event)
	}
}

// crowded gives a message back for longer than others, since every receive
// brings it nearer to the dead-letter queue and it did nothing wrong.
func (p *Poller) crowded(e *entry, m sqsqueue.Message, event ec2event.Event) {
	p.metrics.count(outcomeCrowded, 1)
	later := p.cfg.VisibilityTimeout + p.hand.backoff.after(m.ReceiveCount)
	p.log.Debug("too many messages of the instance wait; one given back",
		"message_id", m.ID, "instance", event.InstanceID, "state", event.State, "retry_in", later)
	p.hand.giveBack(e, later)
}

func (p *Poller) ignore(e *entry, m sqsqueue.Message, event ec2event.Event) {
	p.metrics.count(outcomeIgnored, 1)
	p.log.Debug("message is about something else", "message_id", m.ID, "outcome", outcomeIgnored,
		"source", clip(event.Source), "detail_type", clip(event.DetailType))
	p.hand.delete(e, event)
}

// parse is ec2event.Parse, behind a wall: no message may end the process.
func parse(body string) (event ec2event.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("parsing: %w", recovery.Error(r))
		}
	}()
	return ec2event.Parse([]byte(body))
}

// clip keeps a stranger's text from filling the log.
type clip string

// LogValue returns at most the first 128 bytes.
func (c clip) LogValue() slog.Value { return slog.StringValue(string(c[:min(len(c), 128)])) }
