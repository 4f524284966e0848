//go:build linux

package terraform

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// events are one of each kind, and neighbours that must not come through. What
// each of them is wanted by is a rule's name in the module.
var events = []struct {
	rule, source, detailType, detail string
}{
	{"state", "aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-0123456789abcdef0","state":"pending"}`},
	{"state", "aws.ec2", "EC2 Instance State-change Notification", `{"instance-id":"i-0123456789abcdef0","state":"terminated"}`},
	{"spot", "aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-0123456789abcdef0","instance-action":"terminate"}`},
	{"rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation", `{"instance-id":"i-0123456789abcdef0"}`},
	{"autoscaling", "aws.autoscaling", "EC2 Instance-launch Lifecycle Action", `{"EC2InstanceId":"i-0123456789abcdef0","AutoScalingGroupName":"edge-spot"}`},
	{"autoscaling", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", `{"EC2InstanceId":"i-0123456789abcdef0","AutoScalingGroupName":"edge-arm"}`},
	{"health", "aws.health", "AWS Health Event", `{"service":"EC2","affectedEntities":[{"entityValue":"i-0123456789abcdef0"}]}`},
	{"", "aws.autoscaling", "EC2 Instance-launch Lifecycle Action", `{"EC2InstanceId":"i-0123456789abcdef0","AutoScalingGroupName":"somebody-elses"}`},
	{"", "aws.autoscaling", "EC2 Instance Launch Successful", `{"EC2InstanceId":"i-0123456789abcdef0","AutoScalingGroupName":"edge-spot"}`},
	{"", "aws.health", "AWS Health Event", `{"service":"RDS"}`},
	{"", "aws.ec2", "EBS Volume Notification", `{"result":"available"}`},
	{"", "aws.s3", "Object Created", `{"bucket":{"name":"x"}}`},
}

// through puts one of each event on the bus and returns which came out of the
// queue, sorted.
func through(ctx context.Context, t *testing.T, s *stack.Stack, queueURL string) []string {
	t.Helper()
	for _, e := range events {
		out, err := s.EventBridge().PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
			Source: aws.String(e.source), DetailType: aws.String(e.detailType), Detail: aws.String(e.detail),
		}}})
		must(t, err)
		if out.FailedEntryCount > 0 {
			t.Fatalf("the bus refuses %s", e.detailType)
		}
	}
	// The last that is wanted: when it is out of the queue, all are.
	marker := `{"instance-id":"i-0fedcba9876543210","state":"running"}`
	_, err := s.EventBridge().PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
		Source: aws.String("aws.ec2"), DetailType: aws.String("EC2 Instance State-change Notification"), Detail: aws.String(marker),
	}}})
	must(t, err)
	var came []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		out, err := s.SQS().ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String(queueURL), MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			continue // an answer that was lost comes again
		}
		ended := false
		for _, m := range out.Messages {
			detail := inEnvelope(t, aws.ToString(m.Body))
			ended = ended || sameJSON(t, detail, marker)
			if !sameJSON(t, detail, marker) {
				came = append(came, detail)
			}
		}
		if ended {
			slices.Sort(came)
			return came
		}
	}
	t.Fatal("the events do not come through within a minute")
	return nil
}

// inEnvelope returns the detail of the event in an SNS notification.
func inEnvelope(t *testing.T, body string) string {
	t.Helper()
	var envelope struct{ Type, Message string }
	must(t, json.Unmarshal([]byte(body), &envelope))
	if envelope.Type != "Notification" {
		t.Errorf("the message is no notification: %s", body)
	}
	var event struct {
		DetailType string          `json:"detail-type"`
		Detail     json.RawMessage `json:"detail"`
	}
	must(t, json.Unmarshal([]byte(envelope.Message), &event))
	return normal(t, string(event.Detail))
}

func sameJSON(t *testing.T, a, b string) bool { t.Helper(); return normal(t, a) == normal(t, b) }

// normal writes JSON the one way that Go writes it.
func normal(t *testing.T, text string) string {
	t.Helper()
	var v any
	must(t, json.Unmarshal([]byte(text), &v))
	content, err := json.Marshal(v)
	must(t, err)
	return string(content)
}

// TestOnTheStandIn makes what is planned on one stack, one plan after the other:
// all rules are on the one bus that AWS's own events are on.
func TestOnTheStandIn(t *testing.T) {
	t.Parallel()
	s := startStack(t.Context(), t)
	t.Run("events without switches", func(t *testing.T) {
		eventsReachTheQueue(t, s, plannedModule(t, stack.Region, inputs{"name": "plain"}), "plain")
	})
	t.Run("events with every switch", func(t *testing.T) {
		eventsReachTheQueue(t, s, everythingIn(t, stack.Region), "edge")
	})
	t.Run("daemon", func(t *testing.T) { daemonOnThePath(t, s) })
}

// eventsReachTheQueue: through rules, topic, subscription and queue comes what the
// switches ask for and nothing else.
func eventsReachTheQueue(t *testing.T, s *stack.Stack, p plan, name string) {
	path := applied(t.Context(), t, s, p)
	rules := map[string]bool{}
	for _, r := range p.ofType("aws_cloudwatch_event_rule") {
		rules[r.Values["name"].(string)] = true
	}
	var want []string
	for _, e := range events {
		if rules[name+"-"+e.rule] {
			want = append(want, normal(t, e.detail))
		}
	}
	slices.Sort(want)
	if got := through(t.Context(), t, s, path.QueueURL); !slices.Equal(got, want) {
		t.Errorf("with the rules %v came\n%v, want\n%v", slices.Sorted(maps.Keys(rules)), got, want)
	}
}

// startStack starts the AWS stand-ins with a cluster of their own.
func startStack(ctx context.Context, t *testing.T) *stack.Stack {
	t.Helper()
	s, err := stack.Start(ctx, stack.Options{Progress: os.Stderr})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
