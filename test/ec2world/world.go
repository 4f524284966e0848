//go:build linux

package ec2world

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

// World is the EC2 of one stack.
type World struct {
	ec2    *ec2.Client
	events *eventbridge.Client
	sqs    *sqs.Client
	// authority is made when the first document is signed.
	authority func() (*instanceidentitytest.Authority, error)
}

// Clients are what a World speaks through; a stack.Stack has them.
type Clients interface {
	EC2() *ec2.Client
	EventBridge() *eventbridge.Client
	SQS() *sqs.Client
}

// New returns the EC2 behind the clients.
func New(c Clients) *World {
	return &World{ec2: c.EC2(), events: c.EventBridge(), sqs: c.SQS(), authority: sync.OnceValues(instanceidentitytest.New)}
}

// Zone and Type are those of instances for which Launch is told no others.
const (
	Zone = "us-east-2a"
	Type = "t3.small"
)

// anyImage is an image that moto ships; it matters to nobody.
const anyImage = "ami-12c6146b"

// LaunchOption changes how instances are launched.
type LaunchOption func(*ec2.RunInstancesInput)

// InZone launches into another availability zone of the region.
func InZone(zone string) LaunchOption {
	return func(in *ec2.RunInstancesInput) { in.Placement = &types.Placement{AvailabilityZone: aws.String(zone)} }
}

// OfType launches another instance type.
func OfType(t string) LaunchOption {
	return func(in *ec2.RunInstancesInput) { in.InstanceType = types.InstanceType(t) }
}

// Launch launches one instance with the tags. It is running when Launch
// returns; nothing is announced.
func (w *World) Launch(ctx context.Context, tags map[string]string, options ...LaunchOption) (instance.ID, error) {
	ids, err := w.LaunchMany(ctx, 1, tags, options...)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// LaunchMany launches n instances with the same tags.
func (w *World) LaunchMany(ctx context.Context, n int32, tags map[string]string, options ...LaunchOption) ([]instance.ID, error) {
	in := &ec2.RunInstancesInput{
		ImageId: aws.String(anyImage), MinCount: aws.Int32(n), MaxCount: aws.Int32(n), InstanceType: Type,
	}
	InZone(Zone)(in)
	for _, o := range options {
		o(in)
	}
	if len(tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tagList(tags)}}
	}
	out, err := w.ec2.RunInstances(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("launching %d instances: %w", n, err)
	}
	ids := make([]instance.ID, 0, n)
	for _, i := range out.Instances {
		id, err := instance.ParseID(aws.ToString(i.InstanceId))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Living returns the instances with the tags that are not terminated.
func (w *World) Living(ctx context.Context, tags map[string]string) ([]instance.ID, error) {
	in := &ec2.DescribeInstancesInput{Filters: []types.Filter{{
		Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"},
	}}}
	for key, value := range tags {
		in.Filters = append(in.Filters, types.Filter{Name: aws.String("tag:" + key), Values: []string{value}})
	}
	out, err := w.ec2.DescribeInstances(ctx, in)
	if err != nil {
		return nil, err
	}
	var ids []instance.ID
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			ids = append(ids, instance.ID(aws.ToString(i.InstanceId)))
		}
	}
	return ids, nil
}

// Terminate ends instances for good.
func (w *World) Terminate(ctx context.Context, ids ...instance.ID) error {
	_, err := w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: plain(ids)})
	return err
}

// Stop stops instances, which can run again.
func (w *World) Stop(ctx context.Context, ids ...instance.ID) error {
	_, err := w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: plain(ids)})
	return err
}

// Tag adds tags to an instance, or changes them.
func (w *World) Tag(ctx context.Context, id instance.ID, tags map[string]string) error {
	_, err := w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{string(id)}, Tags: tagList(tags)})
	return err
}

// Untag takes tags from an instance.
func (w *World) Untag(ctx context.Context, id instance.ID, keys ...string) error {
	in := &ec2.DeleteTagsInput{Resources: []string{string(id)}}
	for _, k := range keys {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(k)})
	}
	_, err := w.ec2.DeleteTags(ctx, in)
	return err
}

// State asks EC2 for the state of an instance.
func (w *World) State(ctx context.Context, id instance.ID) (instance.State, error) {
	out, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{string(id)}})
	if err != nil {
		return "", err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if aws.ToString(i.InstanceId) == string(id) && i.State != nil {
				return instance.State(i.State.Name), nil
			}
		}
	}
	return "", errors.New("EC2's answer does not hold " + string(id))
}

func tagList(tags map[string]string) []types.Tag {
	list := make([]types.Tag, 0, len(tags))
	for k, v := range tags {
		list = append(list, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	return list
}

func plain(ids []instance.ID) []string {
	s := make([]string, 0, len(ids))
	for _, id := range ids {
		s = append(s, string(id))
	}
	return s
}
