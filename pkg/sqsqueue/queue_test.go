package sqsqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue/sqsqueuetest"
)

var quiet = slog.New(slog.DiscardHandler)

// spy remembers inputs and answers as told.
type spy struct {
	sqsqueue.API
	receive    *sqs.ReceiveMessageInput
	deadline   time.Duration
	messages   []types.Message
	changes    [][]types.ChangeMessageVisibilityBatchRequestEntry
	deletes    [][]types.DeleteMessageBatchRequestEntry
	deleted    func(call int) (*sqs.DeleteMessageBatchOutput, error)
	attributes map[string]string
}

func (s *spy) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	s.receive = in
	if d, ok := ctx.Deadline(); ok {
		s.deadline = time.Until(d)
	}
	return &sqs.ReceiveMessageOutput{Messages: s.messages}, nil
}

func (s *spy) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	s.deletes = append(s.deletes, in.Entries)
	return s.deleted(len(s.deletes))
}

func (s *spy) ChangeMessageVisibilityBatch(_ context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	s.changes = append(s.changes, in.Entries)
	return &sqs.ChangeMessageVisibilityBatchOutput{}, nil
}

func (s *spy) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{Attributes: s.attributes}, nil
}

func TestReceiveAsksForWhatItNeeds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg                     sqsqueue.Config
		limit                   int
		wait, visibility, count int32
	}{
		"as configured": {sqsqueue.Config{WaitTime: 3 * time.Second, VisibilityTimeout: time.Minute}, 7, 3, 60, 7},
		"defaults":      {sqsqueue.Config{}, 10, 20, 0, 10},
		"rounded up":    {sqsqueue.Config{WaitTime: 100 * time.Millisecond, VisibilityTimeout: 1500 * time.Millisecond}, 1, 1, 2, 1},
		"out of range":  {sqsqueue.Config{WaitTime: time.Hour, VisibilityTimeout: 24 * time.Hour}, 99, 20, 43200, 10},
		"no messages":   {sqsqueue.Config{WaitTime: time.Second}, 0, 1, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := &spy{}
				tt.cfg.URL = "https://queue"
				if _, err := sqsqueue.New(api, tt.cfg).Receive(t.Context(), tt.limit); err != nil {
					t.Fatal(err)
				}
				in := api.receive
				if in.WaitTimeSeconds != tt.wait || in.VisibilityTimeout != tt.visibility || in.MaxNumberOfMessages != tt.count || *in.QueueUrl != "https://queue" {
					t.Errorf("asked with %+v", in)
				}
				if len(in.MessageSystemAttributeNames) != 2 {
					t.Errorf("asked for attributes %v", in.MessageSystemAttributeNames)
				}
				if wait := time.Duration(tt.wait) * time.Second; api.deadline < wait+5*time.Second {
					t.Errorf("the call may last %v, the queue waits %v", api.deadline, wait)
				}
			})
		})
	}
}

func TestReceiveReadsWhatTheQueueSaysAndSurvivesWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	api := &spy{messages: []types.Message{
		{MessageId: aws.String("a"), Body: aws.String("x"), ReceiptHandle: aws.String("r"),
			Attributes: map[string]string{"ApproximateReceiveCount": "3", "SentTimestamp": "1700000000123"}},
		{ReceiptHandle: aws.String("r2"), Attributes: map[string]string{"ApproximateReceiveCount": "-1", "SentTimestamp": "soon"}},
		{MessageId: aws.String("no handle")},
	}}
	got, err := sqsqueue.New(api, sqsqueue.Config{Logger: quiet}).Receive(t.Context(), 10)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if m := got[0]; m.ID != "a" || m.Body != "x" || m.ReceiveCount != 3 || !m.Sent.Equal(time.UnixMilli(1700000000123)) {
		t.Errorf("first message is %+v", m)
	}
	if m := got[1]; m.ID == "" || m.ReceiveCount != 0 || !m.Sent.IsZero() {
		t.Errorf("second message is %+v", m)
	}
}

func receiveAll(t *testing.T, q *sqsqueue.Queue, n int) []sqsqueue.Message {
	t.Helper()
	var all []sqsqueue.Message
	for len(all) < n {
		got, err := q.Receive(t.Context(), 10)
		if err != nil || len(got) == 0 {
			t.Fatalf("received %d of %d messages, then %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

func TestDeleteAndDelayWorkInTens(t *testing.T) {
	t.Parallel()
	fake := sqsqueuetest.New()
	for range 23 {
		fake.Send("x")
	}
	q := sqsqueue.New(fake, sqsqueue.Config{VisibilityTimeout: time.Minute})
	messages := receiveAll(t, q, 23)
	var delays []sqsqueue.Delay
	for _, m := range messages {
		delays = append(delays, sqsqueue.Delay{Message: m})
	}
	if failed, err := q.ChangeVisibility(t.Context(), delays); err != nil || len(failed) > 0 {
		t.Fatalf("delaying failed for %v: %v", failed, err)
	}
	if n := len(fake.Visible()); n != 23 {
		t.Errorf("%d messages visible, want all", n)
	}
	messages = receiveAll(t, q, 23)
	if failed, err := q.Delete(t.Context(), messages); err != nil || len(failed) > 0 {
		t.Fatalf("deleting failed for %v: %v", failed, err)
	}
	if left := fake.Left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if failed, err := q.Delete(t.Context(), nil); err != nil || failed != nil {
		t.Errorf("deleting nothing: %v, %v", failed, err)
	}
}

func TestFailedAndOmittedEntriesComeBackExpiredOnesDoNot(t *testing.T) {
	t.Parallel()
	codes := map[string]string{"message-2": "InternalError", "message-3": sqsqueuetest.Omit, "message-4": "ReceiptHandleIsInvalid", "message-5": "AWS.SimpleQueueService.MessageNotInflight"}
	fake := sqsqueuetest.New()
	fake.SetFaults(sqsqueuetest.Faults{Entry: func(_ sqsqueuetest.Op, id string) string { return codes[id] }})
	for range 6 {
		fake.Send("x")
	}
	q := sqsqueue.New(fake, sqsqueue.Config{VisibilityTimeout: time.Minute, Logger: quiet})
	messages := receiveAll(t, q, 6)
	var delays []sqsqueue.Delay
	for _, m := range messages {
		delays = append(delays, sqsqueue.Delay{Message: m, For: time.Minute})
	}
	late, err := q.ChangeVisibility(t.Context(), delays)
	if err != nil || len(late) != 2 || late[0].Message.ID != "message-2" || late[1].Message.ID != "message-3" || late[0].For != time.Minute {
		t.Errorf("delays that failed: %v, %v", late, err)
	}
	left, err := q.Delete(t.Context(), messages)
	if err != nil || len(left) != 2 || left[0].ID != "message-2" || left[1].ID != "message-3" {
		t.Errorf("deletes that failed: %v, %v", left, err)
	}
}

func TestOnlyTheReceiptHandlesFaultIsFinal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		code, message string
		again         int
	}{
		"expired":          {"InvalidParameterValue", "Value AQEB for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", 0},
		"other parameter":  {"InvalidParameterValue", "Value 43201 for parameter VisibilityTimeout is invalid.", 1},
		"throttled":        {"RequestThrottled", "", 1},
		"without any word": {"", "", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &spy{deleted: func(int) (*sqs.DeleteMessageBatchOutput, error) {
				return &sqs.DeleteMessageBatchOutput{Failed: []types.BatchResultErrorEntry{
					{Id: aws.String("0"), Code: aws.String(tt.code), Message: aws.String(tt.message)}, {}, {Id: aws.String("77")},
				}}, nil
			}}
			failed, err := sqsqueue.New(api, sqsqueue.Config{Logger: quiet}).Delete(t.Context(), make([]sqsqueue.Message, 1))
			if err != nil || len(failed) != tt.again {
				t.Errorf("failed: %v, %v", failed, err)
			}
		})
	}
}

func TestOneFailedCallDoesNotKeepTheNextFromBeingMade(t *testing.T) {
	t.Parallel()
	api := &spy{deleted: func(call int) (*sqs.DeleteMessageBatchOutput, error) {
		if call == 1 {
			return nil, errors.New("throttled")
		}
		return &sqs.DeleteMessageBatchOutput{Successful: []types.DeleteMessageBatchResultEntry{{Id: aws.String("0")}}}, nil
	}}
	failed, err := sqsqueue.New(api, sqsqueue.Config{}).Delete(t.Context(), make([]sqsqueue.Message, 11))
	if len(failed) != 10 || err == nil || !strings.Contains(err.Error(), "throttled") || len(api.deletes) != 2 {
		t.Errorf("%d failed in %d calls: %v", len(failed), len(api.deletes), err)
	}
}

func TestDelaysAreWholeSecondsWithinTheLimitsOfSQS(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int32{
		-time.Second: 0, 0: 0, 1: 1, time.Second: 1, 1001 * time.Millisecond: 2, 12 * time.Hour: 43200, 13 * time.Hour: 43200, 1<<63 - 1: 43200,
	} {
		api := &spy{}
		failed, err := sqsqueue.New(api, sqsqueue.Config{}).ChangeVisibility(t.Context(), []sqsqueue.Delay{{For: d}})
		if got := api.changes[0][0].VisibilityTimeout; got != want || err != nil || len(failed) != 1 {
			t.Errorf("%v became %d s, want %d (%v, %v)", d, got, want, failed, err)
		}
	}
}

func TestHungCallEndsAfterItsOwnTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := sqsqueuetest.New()
		fake.Send("x")
		q := sqsqueue.New(fake, sqsqueue.Config{})
		messages := receiveAll(t, q, 1)
		fake.SetFaults(sqsqueuetest.Faults{Before: func(sqsqueuetest.Op) time.Duration { return time.Hour }})
		began := time.Now()
		failed, err := q.Delete(t.Context(), messages)
		if len(failed) != 1 || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 15*time.Second {
			t.Errorf("after %v: %v, %v", time.Since(began), failed, err)
		}
		if _, err := q.Receive(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("receive: %v", err)
		}
		if _, err := q.HasRedrivePolicy(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("redrive policy: %v", err)
		}
	})
}

func TestHasRedrivePolicy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy  string
		has     bool
		wantErr bool
	}{
		"none":           {"", false, false},
		"one":            {`{"deadLetterTargetArn":"arn:aws:sqs:us-east-2:123456789012:dead","maxReceiveCount":"5"}`, true, false},
		"without target": {`{}`, false, false},
		"unreadable":     {`{`, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &spy{attributes: map[string]string{}}
			if tt.policy != "" {
				api.attributes["RedrivePolicy"] = tt.policy
			}
			has, err := sqsqueue.New(api, sqsqueue.Config{}).HasRedrivePolicy(t.Context())
			if has != tt.has || (err != nil) != tt.wantErr {
				t.Errorf("got %v, %v", has, err)
			}
		})
	}
}
