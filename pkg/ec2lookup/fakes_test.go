package ec2lookup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// recorder remembers what it was asked. Fakes embed it.
type recorder struct {
	mu     sync.Mutex
	inputs []ec2.DescribeInstancesInput
}

// record remembers in and returns how many came before it.
func (r *recorder) record(in *ec2.DescribeInstancesInput) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, *in)
	return len(r.inputs) - 1
}

func (r *recorder) calls() []ec2.DescribeInstancesInput {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inputs)
}

// idsAsked returns the values of the instance-id filter of each call.
func (r *recorder) idsAsked() [][]string {
	var asked [][]string
	for _, in := range r.calls() {
		asked = append(asked, filterValues(&in, "instance-id"))
	}
	return asked
}

func filterValues(in *ec2.DescribeInstancesInput, name string) []string {
	for _, f := range in.Filters {
		if aws.ToString(f.Name) == name {
			return f.Values
		}
	}
	return nil
}

// knowingEC2 knows its instances, keeps to the instance-id filter and refuses
// a call for an id in InstanceIds that it does not know, as the real one does.
type knowingEC2 struct {
	recorder
	instances []types.Instance
}

func (f *knowingEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	for _, id := range in.InstanceIds {
		if !slices.ContainsFunc(f.instances, func(i types.Instance) bool { return aws.ToString(i.InstanceId) == id }) {
			return nil, &smithy.GenericAPIError{Code: "InvalidInstanceID.NotFound", Message: "The instance ID '" + id + "' does not exist"}
		}
	}
	wanted := slices.Concat(in.InstanceIds, filterValues(in, "instance-id"))
	var answer []types.Instance
	for _, i := range f.instances {
		if len(wanted) == 0 || slices.Contains(wanted, aws.ToString(i.InstanceId)) {
			answer = append(answer, i)
		}
	}
	return output(answer, ""), nil
}

// everythingEC2 answers every question with all it has, one page at a time. It
// ignores filters, ids and page sizes.
type everythingEC2 struct {
	recorder
	pages [][]types.Instance
}

func (f *everythingEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	page := len(aws.ToString(in.NextToken)) // the token of page n is n letters
	next := ""
	if page+1 < len(f.pages) {
		next = "xxxxxxxxxxxxxxxx"[:page+1]
	}
	return output(f.pages[page], next), nil
}

// stuckEC2 says after every page that the same one follows.
type stuckEC2 struct {
	recorder
	page []types.Instance
}

func (f *stuckEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	return output(f.page, "again"), nil
}

// emptyEC2 has no instance and no objection.
type emptyEC2 struct{ recorder }

func (f *emptyEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	return &ec2.DescribeInstancesOutput{}, nil
}

// throttledEC2 refuses the first calls, then answers as next does.
type throttledEC2 struct {
	recorder
	refusals int
	next     ec2.DescribeInstancesAPIClient
}

var errThrottled = &smithy.GenericAPIError{Code: "RequestLimitExceeded", Message: "Request limit exceeded."}

func (f *throttledEC2) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	if f.record(in) < f.refusals {
		return nil, errThrottled
	}
	return f.next.DescribeInstances(ctx, in, o...)
}

// partialEC2 answers with its first page and fails at the second.
type partialEC2 struct {
	recorder
	first []types.Instance
}

var errBroken = errors.New("use of closed network connection")

func (f *partialEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	if in.NextToken != nil {
		return nil, errBroken
	}
	return output(f.first, "second"), nil
}

// slowEC2 answers as next does, after a while, if the caller has the patience.
type slowEC2 struct {
	recorder
	after time.Duration
	next  ec2.DescribeInstancesAPIClient
}

func (f *slowEC2) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput, o ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	select {
	case <-time.After(f.after):
		return f.next.DescribeInstances(ctx, in, o...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refusingEC2 answers every call with one error.
type refusingEC2 struct {
	recorder
	err error
}

func (f *refusingEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	f.record(in)
	return nil, f.err
}

// output puts each instance into a reservation of its own.
func output(instances []types.Instance, next string) *ec2.DescribeInstancesOutput {
	out := &ec2.DescribeInstancesOutput{}
	for _, i := range instances {
		out.Reservations = append(out.Reservations, types.Reservation{Instances: []types.Instance{i}})
	}
	if next != "" {
		out.NextToken = aws.String(next)
	}
	return out
}

// described returns an instance as EC2 describes it; tags are keys and values
// in turn.
func described(id string, state types.InstanceStateName, tags ...string) types.Instance {
	i := types.Instance{InstanceId: aws.String(id), State: &types.InstanceState{Name: state}}
	for k := 0; k < len(tags); k += 2 {
		i.Tags = append(i.Tags, types.Tag{Key: aws.String(tags[k]), Value: aws.String(tags[k+1])})
	}
	return i
}
