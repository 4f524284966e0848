// Package sqsqueue speaks to one SQS queue: it receives messages, deletes them
// and changes when they are seen again. It knows nothing of what the messages
// say. The receipt handle never leaves it: a Message is all a caller needs to
// settle it.
package sqsqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// API is what the package needs of the SQS client; *sqs.Client has it.
type API interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Config says which queue, and how it is read.
type Config struct {
	// URL is the queue's URL.
	URL string
	// WaitTime is how long a receive waits for a message, in whole seconds, at
	// most 20 s; 0 is 20 s. A short poll cannot be asked for: it would cost a
	// call many times a second.
	WaitTime time.Duration
	// VisibilityTimeout is how long a received message is hidden from others,
	// rounded up to whole seconds; 0 leaves it to the queue's own setting.
	VisibilityTimeout time.Duration
	// Logger may be nil: slog.Default() then.
	Logger *slog.Logger
}

// SQS's own limits, and ours on one call.
const (
	maxBatch      = 10
	maxWait       = 20 * time.Second
	maxVisibility = 12 * time.Hour
	callTimeout   = 10 * time.Second
)

// Queue is one SQS queue. It is safe for use by several goroutines.
type Queue struct {
	api        API
	url        string
	wait       time.Duration
	visibility time.Duration
	log        *slog.Logger
}

// New returns the queue at cfg.URL.
func New(api API, cfg Config) *Queue {
	q := &Queue{api: api, url: cfg.URL, wait: cfg.WaitTime, visibility: cfg.VisibilityTimeout, log: cfg.Logger}
	if q.wait <= 0 || q.wait > maxWait {
		q.wait = maxWait
	}
	if q.log == nil {
		q.log = slog.Default()
	}
	return q
}

// seconds rounds d up to whole seconds, since SQS knows nothing finer, and
// keeps it between 0 and SQS's 12 hours.
func seconds(d time.Duration) int32 {
	d = min(max(d, 0), maxVisibility)
	return int32((d + time.Second - 1) / time.Second)
}
