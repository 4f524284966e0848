package sqsqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// inBatches hands items to call, ten at a time, each call with its own time
// limit. A call that fails does not keep the next ones from being made.
func inBatches[T any](ctx context.Context, items []T, call func(context.Context, []T) ([]T, error)) (failed []T, err error) {
	for batch := range slices.Chunk(items, maxBatch) {
		rest, batchErr := oneBatch(ctx, batch, call)
		failed = append(failed, rest...)
		err = errors.Join(err, batchErr)
	}
	return failed, err
}

func oneBatch[T any](ctx context.Context, batch []T, call func(context.Context, []T) ([]T, error)) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx, batch)
}

// entryID names the entry at index i of a batch; entries are told apart by it
// in the answer.
func entryID(i int) *string { return aws.String(strconv.Itoa(i)) }

// settled marks the entries of one batch that need no further call. What the
// answer leaves out stays unmarked: silence is not success.
type settled [maxBatch]bool

func (s *settled) add(id *string) {
	if i, err := strconv.Atoi(aws.ToString(id)); err == nil && i >= 0 && i < maxBatch {
		s[i] = true
	}
}

// dismiss marks the failed entries that no further call can help.
func (q *Queue) dismiss(done *settled, failed []types.BatchResultErrorEntry) {
	for _, f := range failed {
		code, message := aws.ToString(f.Code), aws.ToString(f.Message)
		if handleExpired(code, message) {
			done.add(f.Id)
			q.log.Debug("receipt handle is no longer valid", "code", code, "reason", message)
			continue
		}
		q.log.Debug("batch entry failed", "code", code, "reason", message)
	}
}

// handleExpired reports whether SQS refused the receipt handle itself: the
// message is gone, is visible again, or was received again by somebody.
func handleExpired(code, message string) bool {
	switch strings.TrimPrefix(code, "AWS.SimpleQueueService.") {
	case "ReceiptHandleIsInvalid", "MessageNotInflight":
		return true
	case "InvalidParameterValue": // also used for other parameters
		return strings.Contains(strings.ToLower(message), "receipt handle") || strings.Contains(message, "ReceiptHandle")
	default:
		return false
	}
}

func unsettled[T any](batch []T, done *settled) []T {
	var rest []T
	for i, item := range batch {
		if !done[i] {
			rest = append(rest, item)
		}
	}
	return rest
}
