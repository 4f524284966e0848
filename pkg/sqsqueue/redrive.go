package sqsqueue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// HasRedrivePolicy reports whether the queue moves messages that were received
// too often to a dead-letter queue.
func (q *Queue) HasRedrivePolicy(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := q.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy},
	})
	if err != nil {
		return false, fmt.Errorf("reading the queue's redrive policy: %w", err)
	}
	text := out.Attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if text == "" {
		return false, nil
	}
	var policy struct {
		DeadLetterTargetARN string `json:"deadLetterTargetArn"`
	}
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		return false, fmt.Errorf("reading the queue's redrive policy: %w", err)
	}
	return policy.DeadLetterTargetARN != "", nil
}
