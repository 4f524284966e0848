package sqsqueuetest

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// DeleteMessageBatch deletes by the newest receipt handle; an older one is
// accepted and does nothing.
func (q *Queue) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	var out sqs.DeleteMessageBatchOutput
	err := q.around(ctx, Delete, func(f Faults) {
		for _, e := range in.Entries {
			code := q.settle(f, Delete, *e.ReceiptHandle, 0)
			switch code {
			case "":
				out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
			case Omit:
			default:
				out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String(code)})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// ChangeMessageVisibilityBatch changes messages in flight by the newest receipt
// handle and refuses all others.
func (q *Queue) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	var out sqs.ChangeMessageVisibilityBatchOutput
	err := q.around(ctx, Change, func(f Faults) {
		for _, e := range in.Entries {
			code := q.settle(f, Change, *e.ReceiptHandle, time.Duration(e.VisibilityTimeout)*time.Second)
			switch code {
			case "":
				out.Successful = append(out.Successful, types.ChangeMessageVisibilityBatchResultEntry{Id: e.Id})
			case Omit:
			default:
				out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String(code)})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// GetQueueAttributes knows the redrive policy only.
func (q *Queue) GetQueueAttributes(ctx context.Context, _ *sqs.GetQueueAttributesInput, _ ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	out := sqs.GetQueueAttributesOutput{Attributes: map[string]string{}}
	err := q.around(ctx, Attributes, func(Faults) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.note(Attributes, "", 0, true)
		if q.MaxReceives > 0 {
			out.Attributes["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-2:123456789012:dead","maxReceiveCount":3}`
		}
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// settle does one entry of a batch and returns its error code, "" when it
// worked.
func (q *Queue) settle(f Faults, op Op, receipt string, d time.Duration) string {
	id, _, _ := strings.Cut(receipt, "/")
	if f.Entry != nil {
		if code := f.Entry(op, id); code != "" {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.note(op, receipt, d, false)
			return code
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.newest(receipt)
	inFlight := m != nil && m.visibleAt.After(time.Now())
	done := m != nil && (op == Delete || inFlight)
	q.note(op, receipt, d, done)
	switch {
	case op == Delete && done:
		q.remove(m)
	case op == Change && done:
		m.visibleAt = time.Now().Add(d)
		q.wake()
	case op == Change:
		return "MessageNotInflight"
	}
	return ""
}

// newest returns the message whose newest receipt handle that is.
func (q *Queue) newest(receipt string) *message {
	for _, m := range q.messages {
		if m.receipt == receipt {
			return m
		}
	}
	return nil
}
