//go:build linux

package ec2world

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// Change is one state change to announce.
type Change struct {
	ID    instance.ID
	State instance.State
	// Time is the event's own; zero: now.
	Time time.Time
}

// account is the one that both stand-ins play.
const account = "000000000000"

// AnnounceOption changes an announcement.
type AnnounceOption func(*Change)

// At dates the event.
func At(t time.Time) AnnounceOption { return func(c *Change) { c.Time = t } }

// Announce puts one state change on the path's bus, as EC2 would.
func (w *World) Announce(ctx context.Context, path stack.EventPath, id instance.ID, state instance.State, options ...AnnounceOption) error {
	c := Change{ID: id, State: state}
	for _, o := range options {
		o(&c)
	}
	return w.AnnounceAll(ctx, path, c)
}

// AnnounceAll puts state changes on the path's bus in the given order, ten a
// call.
func (w *World) AnnounceAll(ctx context.Context, path stack.EventPath, changes ...Change) error {
	for chunk := range slices.Chunk(changes, 10) {
		in := &eventbridge.PutEventsInput{}
		for _, c := range chunk {
			entry, err := c.entry(path.Bus)
			if err != nil {
				return err
			}
			in.Entries = append(in.Entries, entry)
		}
		out, err := w.events.PutEvents(ctx, in)
		if err != nil {
			return fmt.Errorf("announcing state changes: %w", err)
		}
		if out.FailedEntryCount > 0 {
			return fmt.Errorf("the bus %s refuses %d of %d state changes", path.Bus, out.FailedEntryCount, len(chunk))
		}
	}
	return nil
}

func (c Change) entry(bus string) (types.PutEventsRequestEntry, error) {
	detail, err := json.Marshal(map[string]string{"instance-id": string(c.ID), "state": string(c.State)})
	if err != nil {
		return types.PutEventsRequestEntry{}, err
	}
	when := c.Time
	if when.IsZero() {
		when = time.Now()
	}
	return types.PutEventsRequestEntry{
		EventBusName: aws.String(bus),
		Source:       aws.String("aws.ec2"),
		DetailType:   aws.String("EC2 Instance State-change Notification"),
		Detail:       aws.String(string(detail)),
		Resources:    []string{fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", stack.Region, account, c.ID)},
		Time:         aws.Time(when),
	}, nil
}

// AnnounceRaw puts a body of any bytes directly into the path's queue.
func (w *World) AnnounceRaw(ctx context.Context, path stack.EventPath, body string) error {
	_, err := w.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(path.QueueURL), MessageBody: aws.String(body)})
	return err
}
