//go:build linux

package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// probeMinistack asks up to three times, each time over a path of its own: an
// answer that the network lost takes a message along for its visibility
// time-out, and a busy machine is slow. What the stand-in has not, it has not
// the third time either.
func (s *Stack) probeMinistack(ctx context.Context) (err error) {
	for try := range 3 {
		if err = s.probeMinistackOnce(ctx, fmt.Sprintf("probe-%d", try+1)); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *Stack) probeMinistackOnce(ctx context.Context, name string) error {
	var path EventPath
	var got sqstypes.Message
	return probe(ctx, "ministack", []check{
		{"STS GetCallerIdentity", func(ctx context.Context) error {
			_, err := s.aws.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		}},
		{"bus, rule, topic, subscription, queues", func(ctx context.Context) (err error) {
			path, err = s.NewPath(ctx, name, MaxReceiveCount(2))
			return err
		}},
		{"events EventBridge → SNS → SQS, in the SNS envelope", func(ctx context.Context) (err error) {
			if err := s.putProbeEvent(ctx, path); err != nil {
				return err
			}
			got, err = s.receiveSoon(ctx, path.QueueURL)
			if err == nil && !strings.Contains(aws.ToString(got.Body), `"Notification"`) {
				err = fmt.Errorf("the body is no SNS notification: %.200s", aws.ToString(got.Body))
			}
			return err
		}},
		{"SQS attributes ApproximateReceiveCount and SentTimestamp", func(context.Context) error {
			if got.Attributes["ApproximateReceiveCount"] != "1" || got.Attributes["SentTimestamp"] == "" {
				return fmt.Errorf("got %v", got.Attributes)
			}
			return nil
		}},
		{"SQS ChangeMessageVisibilityBatch makes a message visible at once", func(ctx context.Context) (err error) {
			if err := s.giveBack(ctx, path.QueueURL, got); err != nil {
				return err
			}
			got, err = s.receiveSoon(ctx, path.QueueURL)
			return err
		}},
		{"SQS redrive policy", func(ctx context.Context) error {
			return s.becomesDeadLetter(ctx, path, got)
		}},
	})
}

// becomesDeadLetter returns nil once the message, which was received, is a dead
// letter. It moves only when somebody receives from its queue, and perhaps not at
// the first try: that it is visible again may show a moment later, or a call may
// have been lost.
func (s *Stack) becomesDeadLetter(ctx context.Context, path EventPath, received sqstypes.Message) (err error) {
	if err := s.giveBack(ctx, path.QueueURL, received); err != nil {
		return err
	}
	for range 25 {
		_ = s.giveBack(ctx, path.QueueURL, received) // once more: refused when it has moved
		if _, err := s.receiveOne(ctx, path.QueueURL); err == nil {
			return errors.New("a message was received more often than maxReceiveCount")
		}
		if _, err = s.receiveOne(ctx, path.DLQURL); err == nil {
			return nil
		}
	}
	return err
}

func (s *Stack) putProbeEvent(ctx context.Context, path EventPath) error {
	out, err := s.aws.events.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
		EventBusName: aws.String(path.Bus), Source: aws.String("aws.ec2"),
		DetailType: aws.String("EC2 Instance State-change Notification"),
		Detail:     aws.String(`{"instance-id":"i-00000000000000000","state":"pending"}`),
	}}})
	if err == nil && out.FailedEntryCount > 0 {
		err = errors.New(aws.ToString(out.Entries[0].ErrorMessage))
	}
	return err
}

// receiveSoon is receiveOne with patience for a busy machine.
func (s *Stack) receiveSoon(ctx context.Context, queue string) (m sqstypes.Message, err error) {
	for range 8 {
		if m, err = s.receiveOne(ctx, queue); err == nil || ctx.Err() != nil {
			break
		}
	}
	return m, err
}

func (s *Stack) receiveOne(ctx context.Context, queue string) (sqstypes.Message, error) {
	out, err := s.aws.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(queue), WaitTimeSeconds: 1,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return sqstypes.Message{}, err
	}
	if len(out.Messages) == 0 {
		return sqstypes.Message{}, fmt.Errorf("no message in %s within a second", queue)
	}
	return out.Messages[0], nil
}

// giveBack makes a received message visible again.
func (s *Stack) giveBack(ctx context.Context, queue string, m sqstypes.Message) error {
	out, err := s.aws.sqs.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: aws.String(queue),
		Entries: []sqstypes.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0},
		},
	})
	if err == nil && len(out.Failed) > 0 {
		err = errors.New(aws.ToString(out.Failed[0].Message))
	}
	return err
}
