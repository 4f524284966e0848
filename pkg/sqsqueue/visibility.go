package sqsqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Delay says when a message is to be seen again.
type Delay struct {
	Message Message
	// For counts from the moment SQS gets the request; it is rounded up to
	// whole seconds and kept between 0 (at once) and SQS's 12 hours.
	For time.Duration
}

// ChangeVisibility hides messages for another while, or shows them at once, ten
// a call. What it returns is as with Delete: every delay that is not known to
// have taken, except those whose message is no longer ours to delay.
func (q *Queue) ChangeVisibility(ctx context.Context, delays []Delay) (failed []Delay, err error) {
	return inBatches(ctx, delays, q.changeBatch)
}

func (q *Queue) changeBatch(ctx context.Context, batch []Delay) ([]Delay, error) {
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
	for i := range batch {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: entryID(i), ReceiptHandle: &batch[i].Message.receipt, VisibilityTimeout: seconds(batch[i].For),
		}
	}
	out, err := q.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		return batch, fmt.Errorf("changing the visibility of %d messages: %w", len(batch), err)
	}
	var done settled
	for _, s := range out.Successful {
		done.add(s.Id)
	}
	q.dismiss(&done, out.Failed)
	return unsettled(batch, &done), nil
}
