package sqsqueue

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Delete removes messages for good, ten a call. It returns every message that
// is not known to be gone, those of a call that failed as a whole among them;
// err is only about such calls. A message whose receipt handle SQS no longer
// takes counts as done: asking again is useless, and when it still exists it
// comes again with a new handle.
func (q *Queue) Delete(ctx context.Context, messages []Message) (failed []Message, err error) {
	return inBatches(ctx, messages, q.deleteBatch)
}

func (q *Queue) deleteBatch(ctx context.Context, batch []Message) ([]Message, error) {
	entries := make([]types.DeleteMessageBatchRequestEntry, len(batch))
	for i := range batch {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: &batch[i].receipt}
	}
	out, err := q.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		return batch, fmt.Errorf("deleting %d messages: %w", len(batch), err)
	}
	var done settled
	for _, s := range out.Successful {
		done.add(s.Id)
	}
	q.dismiss(&done, out.Failed)
	return unsettled(batch, &done), nil
}
