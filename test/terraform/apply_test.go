//go:build linux

package terraform

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// applied makes on the stack what the plan holds of the event path, and nothing
// else, in the order of the plan's references. What AWS would name otherwise than
// planned fails the test: the plan's policies then speak of something else.
func applied(ctx context.Context, t *testing.T, s *stack.Stack, p plan) stack.EventPath {
	t.Helper()
	path := stack.EventPath{Bus: "default"}
	path.DLQURL, path.DLQARN = applyQueue(ctx, t, s, p, "aws_sqs_queue.dead_letters", nil)
	path.QueueURL, path.QueueARN = applyQueue(ctx, t, s, p, "aws_sqs_queue.events", map[string]string{
		"Policy": p.get(t, "aws_sqs_queue_policy.events")["policy"].(string),
	})
	setQueue(ctx, t, s, path.DLQURL, map[string]string{
		"RedriveAllowPolicy": p.get(t, "aws_sqs_queue_redrive_allow_policy.dead_letters")["redrive_allow_policy"].(string),
	})

	topic := p.get(t, "aws_sns_topic.events")
	created, err := s.SNS().CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String(topic["name"].(string))})
	must(t, err)
	path.TopicARN = aws.ToString(created.TopicArn)
	same(t, "topic", path.TopicARN, topic["arn"])
	_, err = s.SNS().SetTopicAttributes(ctx, &sns.SetTopicAttributesInput{
		TopicArn: created.TopicArn, AttributeName: aws.String("Policy"),
		AttributeValue: aws.String(p.get(t, "aws_sns_topic_policy.events")["policy"].(string)),
	})
	must(t, err)
	subscription := p.get(t, "aws_sns_topic_subscription.queue")
	_, err = s.SNS().Subscribe(ctx, &sns.SubscribeInput{
		TopicArn: aws.String(subscription["topic_arn"].(string)), Protocol: aws.String(subscription["protocol"].(string)),
		Endpoint: aws.String(subscription["endpoint"].(string)),
		Attributes: map[string]string{
			"RawMessageDelivery": strconv.FormatBool(subscription["raw_message_delivery"] == true),
		},
	})
	must(t, err)
	for _, rule := range p.ofType("aws_cloudwatch_event_rule") {
		applyRule(ctx, t, s, p, rule)
	}
	return path
}

func applyRule(ctx context.Context, t *testing.T, s *stack.Stack, p plan, rule resource) {
	t.Helper()
	const bus = "default" // where AWS's own events are
	name := rule.Values["name"].(string)
	if written := rule.Values["event_bus_name"]; written != nil && written != bus {
		t.Errorf("the rule %s is on the bus %v", name, written)
	}
	put, err := s.EventBridge().PutRule(ctx, &eventbridge.PutRuleInput{
		Name: aws.String(name), EventBusName: aws.String(bus), EventPattern: aws.String(rule.Values["event_pattern"].(string)),
	})
	must(t, err)
	same(t, "rule", aws.ToString(put.RuleArn), rule.Values["arn"])
	for _, target := range p.ofType("aws_cloudwatch_event_target") {
		if target.Values["rule"] != name {
			continue
		}
		out, err := s.EventBridge().PutTargets(ctx, &eventbridge.PutTargetsInput{
			Rule: aws.String(name), EventBusName: aws.String(bus),
			Targets: []ebtypes.Target{{Id: aws.String(target.Values["target_id"].(string)), Arn: aws.String(target.Values["arn"].(string))}},
		})
		must(t, err)
		if out.FailedEntryCount > 0 {
			t.Errorf("the rule %s refuses its target", name)
		}
		return
	}
	t.Errorf("the rule %s has no target", name)
}

// applyQueue makes a queue with the attributes that the plan has for it.
func applyQueue(ctx context.Context, t *testing.T, s *stack.Stack, p plan, address string, more map[string]string) (url, arn string) {
	t.Helper()
	planned := p.get(t, address)
	attributes := map[string]string{}
	for from, to := range map[string]string{
		"message_retention_seconds": "MessageRetentionPeriod", "visibility_timeout_seconds": "VisibilityTimeout",
		"receive_wait_time_seconds": "ReceiveMessageWaitTimeSeconds", "sqs_managed_sse_enabled": "SqsManagedSseEnabled",
		"redrive_policy": "RedrivePolicy",
	} {
		if v := planned[from]; v != nil {
			attributes[to] = fmt.Sprint(v)
			if n, ok := v.(float64); ok {
				attributes[to] = strconv.Itoa(int(n))
			}
		}
	}
	created, err := s.SQS().CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(planned["name"].(string)), Attributes: attributes})
	must(t, err)
	url = aws.ToString(created.QueueUrl)
	setQueue(ctx, t, s, url, more)
	answer, err := s.SQS().GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(url), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	must(t, err)
	arn = answer.Attributes["QueueArn"]
	same(t, "queue", arn, planned["arn"])
	same(t, "retention", answer.Attributes["MessageRetentionPeriod"], attributes["MessageRetentionPeriod"])
	return url, arn
}

func setQueue(ctx context.Context, t *testing.T, s *stack.Stack, url string, attributes map[string]string) {
	t.Helper()
	if len(attributes) == 0 {
		return
	}
	_, err := s.SQS().SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: aws.String(url), Attributes: attributes})
	must(t, err)
}

func same(t *testing.T, what, got string, want any) {
	t.Helper()
	if got != want {
		t.Errorf("the %s is %s, planned was %v", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
