//go:build linux

package stack

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Messages returns how many messages a queue holds: waiting, in flight and
// delayed.
func (s *Stack) Messages(ctx context.Context, queueURL string) (int, error) {
	names := []sqstypes.QueueAttributeName{
		sqstypes.QueueAttributeNameApproximateNumberOfMessages,
		sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		sqstypes.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := s.aws.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: aws.String(queueURL), AttributeNames: names})
	if err != nil {
		return 0, err
	}
	total := 0
	for _, name := range names {
		n := 0
		if _, err := fmt.Sscan(out.Attributes[string(name)], &n); err != nil {
			return 0, fmt.Errorf("queue attribute %s is %q", name, out.Attributes[string(name)])
		}
		total += n
	}
	return total, nil
}

// Purge empties a queue.
func (s *Stack) Purge(ctx context.Context, queueURL string) error {
	_, err := s.aws.sqs.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: aws.String(queueURL)})
	return err
}
