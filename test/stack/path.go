//go:build linux

package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// EventPath is the way of an event from EC2 to the daemon: bus, rule, topic,
// subscription, queue, and the dead-letter queue beside it.
type EventPath struct {
	Name     string
	Bus      string // name of an event bus of its own, so that paths do not see each other's events
	TopicARN string
	QueueURL string
	QueueARN string
	DLQURL   string
	DLQARN   string
}

// PathOption changes how NewPath makes a path.
type PathOption func(*pathSettings)

type pathSettings struct {
	visibility  time.Duration
	maxReceives int
	raw         bool
}

// VisibilityTimeout sets the queue's own time-out, in whole seconds; the
// default is 30 s.
func VisibilityTimeout(d time.Duration) PathOption { return func(s *pathSettings) { s.visibility = d } }

// MaxReceiveCount sets after how many receives a message goes to the
// dead-letter queue; the default is 20, and 0 means that there is no redrive
// policy.
func MaxReceiveCount(n int) PathOption { return func(s *pathSettings) { s.maxReceives = n } }

// RawDelivery makes the subscription deliver the event itself, without the SNS
// envelope.
func RawDelivery() PathOption { return func(s *pathSettings) { s.raw = true } }

// statePattern is the rule's pattern: what the production rule lets through.
const statePattern = `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"]}`

// NewPath makes a path of its own for EC2 state changes. The name must be new
// to the stack, of letters, digits and hyphens.
func (s *Stack) NewPath(ctx context.Context, name string, options ...PathOption) (EventPath, error) {
	settings := pathSettings{visibility: 30 * time.Second, maxReceives: 20}
	for _, o := range options {
		o(&settings)
	}
	p := EventPath{Name: name, Bus: name}
	for _, step := range []func(context.Context, *EventPath, pathSettings) error{s.addQueues, s.addTopic, s.addRule} {
		if err := step(ctx, &p, settings); err != nil {
			return EventPath{}, fmt.Errorf("event path %s: %w", name, err)
		}
	}
	return p, nil
}

func (s *Stack) addQueues(ctx context.Context, p *EventPath, settings pathSettings) (err error) {
	if p.DLQURL, p.DLQARN, err = s.addQueue(ctx, p.Name+"-dead-letters", nil); err != nil {
		return err
	}
	attributes := map[string]string{
		"VisibilityTimeout": strconv.Itoa(int(settings.visibility / time.Second)),
	}
	if settings.maxReceives > 0 {
		redrive, err := json.Marshal(map[string]any{"deadLetterTargetArn": p.DLQARN, "maxReceiveCount": settings.maxReceives})
		if err != nil {
			return err
		}
		attributes["RedrivePolicy"] = string(redrive)
	}
	p.QueueURL, p.QueueARN, err = s.addQueue(ctx, p.Name, attributes)
	return err
}

func (s *Stack) addQueue(ctx context.Context, name string, attributes map[string]string) (url, arn string, err error) {
	all := map[string]string{"MessageRetentionPeriod": "1209600"}
	maps.Copy(all, attributes)
	created, err := s.aws.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name), Attributes: all})
	if err != nil {
		return "", "", err
	}
	url = aws.ToString(created.QueueUrl)
	answer, err := s.aws.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(url), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", "", err
	}
	return url, answer.Attributes[string(sqstypes.QueueAttributeNameQueueArn)], nil
}

func (s *Stack) addTopic(ctx context.Context, p *EventPath, settings pathSettings) error {
	topic, err := s.aws.sns.CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String(p.Name)})
	if err != nil {
		return err
	}
	p.TopicARN = aws.ToString(topic.TopicArn)
	_, err = s.aws.sns.Subscribe(ctx, &sns.SubscribeInput{
		TopicArn: topic.TopicArn, Protocol: aws.String("sqs"), Endpoint: aws.String(p.QueueARN),
		Attributes: map[string]string{"RawMessageDelivery": strconv.FormatBool(settings.raw)},
	})
	return err
}

func (s *Stack) addRule(ctx context.Context, p *EventPath, _ pathSettings) error {
	if _, err := s.aws.events.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: aws.String(p.Bus)}); err != nil && !alreadyThere(err) {
		return err
	}
	_, err := s.aws.events.PutRule(ctx, &eventbridge.PutRuleInput{
		Name: aws.String(p.Name), EventBusName: aws.String(p.Bus), EventPattern: aws.String(statePattern),
	})
	if err != nil {
		return err
	}
	targets, err := s.aws.events.PutTargets(ctx, &eventbridge.PutTargetsInput{
		Rule: aws.String(p.Name), EventBusName: aws.String(p.Bus),
		Targets: []ebtypes.Target{{Id: aws.String("topic"), Arn: aws.String(p.TopicARN)}},
	})
	if err != nil {
		return err
	}
	if targets.FailedEntryCount > 0 {
		return fmt.Errorf("the rule refuses the topic: %s", aws.ToString(targets.FailedEntries[0].ErrorMessage))
	}
	return nil
}

// alreadyThere reports that the bus exists: the SDK asked again after the first
// answer was lost on its way. Names are used once.
func alreadyThere(err error) bool {
	var exists *ebtypes.ResourceAlreadyExistsException
	return errors.As(err, &exists)
}
