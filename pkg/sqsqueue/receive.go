package sqsqueue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Message is one message as it was received. The same message received again
// has the same ID and another receipt handle; only the newest one counts.
type Message struct {
	// ID is SQS's message id, never empty.
	ID string
	// Body is what was sent, byte for byte.
	Body string
	// ReceiveCount says how often the message was received, this time
	// included; 0 when the queue did not say.
	ReceiveCount int
	// Sent is when the message came into the queue; zero when the queue did
	// not say.
	Sent time.Time

	receipt string
}

// Receive makes one long poll for at most limit messages (1 to 10; other values
// are moved there) and returns what came, which may be nothing. When it fails
// after the queue handed messages out, they come again after the visibility
// timeout. It does not look for duplicates.
func (q *Queue) Receive(ctx context.Context, limit int) ([]Message, error) {
	// The answer of a poll that waited to its end still has to travel.
	ctx, cancel := context.WithTimeout(ctx, q.wait+callTimeout)
	defer cancel()
	out, err := q.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:            &q.url,
		MaxNumberOfMessages: int32(min(max(limit, 1), maxBatch)),
		WaitTimeSeconds:     seconds(q.wait),
		VisibilityTimeout:   seconds(q.visibility),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount,
			types.MessageSystemAttributeNameSentTimestamp,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("receiving messages: %w", err)
	}
	messages := make([]Message, 0, len(out.Messages))
	for _, m := range out.Messages {
		if aws.ToString(m.ReceiptHandle) == "" {
			q.log.Warn("message without a receipt handle left to the queue", "message_id", aws.ToString(m.MessageId))
			continue
		}
		messages = append(messages, fromSQS(m))
	}
	return messages, nil
}

func fromSQS(m types.Message) Message {
	msg := Message{ID: aws.ToString(m.MessageId), Body: aws.ToString(m.Body), receipt: aws.ToString(m.ReceiptHandle)}
	if msg.ID == "" {
		msg.ID = msg.receipt // so that two of them are never taken for one
	}
	if n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]); err == nil {
		msg.ReceiveCount = max(n, 0)
	}
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		msg.Sent = time.UnixMilli(ms)
	}
	return msg
}
