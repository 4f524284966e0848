//go:build linux

package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

func (s *Stack) probeMoto(ctx context.Context) error {
	var id string
	return probe(ctx, "moto", []check{
		{"EC2 RunInstances with tags", func(ctx context.Context) (err error) {
			id, err = s.runProbeInstance(ctx)
			return err
		}},
		{"EC2 DescribeInstances by instance-id, one of two unknown", func(ctx context.Context) error {
			return s.expectInstances(ctx, 1, filter("instance-id", id, "i-0123456789abcdef0"))
		}},
		{"EC2 DescribeInstances by tag with a wildcard", func(ctx context.Context) error {
			return s.expectInstances(ctx, 1, filter("tag:dynk8s.du5t1n.me/probe", "pr?be*"))
		}},
		{"EC2 DescribeInstances by tag, case-sensitive", func(ctx context.Context) error {
			return s.expectInstances(ctx, 0, filter("tag:dynk8s.du5t1n.me/probe", "PROBE"))
		}},
		{"EC2 TerminateInstances", func(ctx context.Context) error {
			if _, err := s.aws.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
				return err
			}
			return s.expectInstances(ctx, 1, filter("instance-id", id), filter("instance-state-name", "terminated"))
		}},
		{"EC2 InvalidInstanceID.NotFound for an unknown id", func(ctx context.Context) error {
			_, err := s.aws.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != "InvalidInstanceID.NotFound" {
				return fmt.Errorf("got %w", err)
			}
			return nil
		}},
	})
}

func (s *Stack) runProbeInstance(ctx context.Context) (string, error) {
	out, err := s.aws.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		InstanceType: ec2types.InstanceTypeT3Small,
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeInstance,
			Tags:         []ec2types.Tag{{Key: aws.String("dynk8s.du5t1n.me/probe"), Value: aws.String("probe")}},
		}},
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Instances[0].InstanceId), nil
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

func (s *Stack) expectInstances(ctx context.Context, want int, filters ...ec2types.Filter) error {
	out, err := s.aws.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters})
	if err != nil {
		return err
	}
	got := 0
	for _, r := range out.Reservations {
		got += len(r.Instances)
	}
	if got != want {
		return fmt.Errorf("got %d instances, want %d", got, want)
	}
	return nil
}
