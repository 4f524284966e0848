package sqsqueuetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// DefaultVisibility is the queue's own visibility timeout.
const DefaultVisibility = 30 * time.Second

// ReceiveMessage waits for visible messages as a long poll does.
func (q *Queue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	var out sqs.ReceiveMessageOutput
	err := q.around(ctx, Receive, func(Faults) { out.Messages = q.poll(ctx, in) })
	if err != nil {
		return nil, err
	}
	return &out, nil
}

func (q *Queue) poll(ctx context.Context, in *sqs.ReceiveMessageInput) []types.Message {
	end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		got, next, changed := q.handOut(in)
		if len(got) > 0 || !time.Now().Before(end) {
			return got
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(time.Until(next)):
		}
	}
}

// handOut returns what is visible, else when the next message will be.
func (q *Queue) handOut(in *sqs.ReceiveMessageInput) (got []types.Message, next time.Time, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := int(in.MaxNumberOfMessages)
	if q.MaxMessages > 0 {
		limit = min(limit, q.MaxMessages)
	}
	hidden := DefaultVisibility
	if in.VisibilityTimeout > 0 {
		hidden = time.Duration(in.VisibilityTimeout) * time.Second
	}
	for _, m := range slices.Clone(q.messages) {
		switch {
		case m.visibleAt.After(time.Now()):
			if next.IsZero() || m.visibleAt.Before(next) {
				next = m.visibleAt
			}
		case q.MaxReceives > 0 && m.receives >= q.MaxReceives:
			q.bury(m)
		case len(got) < limit:
			got = append(got, q.handOutOne(m, hidden))
		}
	}
	return got, next, q.changed
}

func (q *Queue) handOutOne(m *message, hidden time.Duration) types.Message {
	m.receives++
	m.receipt = fmt.Sprintf("%s/%d", m.id, m.receives)
	m.visibleAt = time.Now().Add(hidden)
	q.note(Receive, m.receipt, hidden, true)
	return types.Message{
		MessageId: aws.String(m.id), Body: aws.String(m.body), ReceiptHandle: aws.String(m.receipt),
		Attributes: map[string]string{
			"ApproximateReceiveCount": strconv.Itoa(m.receives),
			"SentTimestamp":           strconv.FormatInt(m.sent.UnixMilli(), 10),
		},
	}
}

func (q *Queue) bury(m *message) {
	q.dead = append(q.dead, m)
	q.remove(m)
}

func (q *Queue) remove(m *message) {
	q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == m })
}
