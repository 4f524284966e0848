package sqsqueuetest

import (
	"context"
	"time"
)

// Op names a call to the queue.
type Op string

// The calls the queue answers.
const (
	Receive    Op = "ReceiveMessage"
	Delete     Op = "DeleteMessageBatch"
	Change     Op = "ChangeMessageVisibilityBatch"
	Attributes Op = "GetQueueAttributes"
)

// Omit is what Faults.Entry returns to leave the entry undone and out of the
// answer.
const Omit = "omit"

// Faults are what goes wrong. A nil function is no fault. They are called
// without the queue's mutex, from several goroutines.
type Faults struct {
	// Refuse fails a call before anything was done.
	Refuse func(Op) error
	// Lose fails a call after everything was done: the answer is lost.
	Lose func(Op) error
	// Before and After are the times a call travels each way.
	Before, After func(Op) time.Duration
	// Entry fails one entry of a batch with the code it returns; "" does not.
	Entry func(op Op, messageID string) string
}

// SetFaults replaces what goes wrong from now on.
func (q *Queue) SetFaults(f Faults) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.faults = f
}

func (q *Queue) currentFaults() Faults {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.faults
}

// around does one call with the faults of the moment.
func (q *Queue) around(ctx context.Context, op Op, do func(Faults)) error {
	f := q.currentFaults()
	if err := travel(ctx, op, f.Before); err != nil {
		return err
	}
	if err := fault(op, f.Refuse); err != nil {
		return err
	}
	do(f)
	if err := fault(op, f.Lose); err != nil {
		return err
	}
	return travel(ctx, op, f.After)
}

func fault(op Op, f func(Op) error) error {
	if f == nil {
		return nil
	}
	return f(op)
}

func travel(ctx context.Context, op Op, f func(Op) time.Duration) error {
	if f == nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f(op)):
		return nil
	}
}
