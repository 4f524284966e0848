package ec2lookup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// countingEC2 knows one instance in one state, or none, or is away.
type countingEC2 struct {
	calls atomic.Int32
	state types.InstanceStateName // empty: no such instance
	err   error
}

func (e *countingEC2) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	e.calls.Add(1)
	out := &ec2.DescribeInstancesOutput{}
	if e.state != "" && e.err == nil {
		id := "i-0000000000000000a"
		out.Reservations = []types.Reservation{{Instances: []types.Instance{{InstanceId: &id, State: &types.InstanceState{Name: e.state}}}}}
	}
	return out, e.err
}

// Who asks again and again costs one call in ten seconds, whatever the answer;
// but an error is no answer.
func TestRecentAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &countingEC2{err: errors.New("throttled")}
		r := NewRecent(New(e, Config{}))
		ask := func(want instance.State, wantErr error, calls int32) {
			t.Helper()
			e.calls.Store(0)
			for range 100 {
				inst, err := r.Instance(t.Context(), "i-0000000000000000a")
				if inst.State != want || !errors.Is(err, wantErr) {
					t.Fatalf("%s, %v; want %s, %v", inst.State, err, want, wantErr)
				}
			}
			if got := e.calls.Load(); got != calls {
				t.Errorf("%d calls, want %d", got, calls)
			}
		}
		ask("", e.err, 100)
		e.err = nil
		ask("", instance.ErrNotFound, 1)
		e.state = types.InstanceStateNameRunning
		ask("", instance.ErrNotFound, 0)
		time.Sleep(recentLife + time.Nanosecond)
		ask(instance.Running, nil, 1)
		e.state = types.InstanceStateNameTerminated
		ask(instance.Running, nil, 0)
		time.Sleep(recentLife + time.Nanosecond)
		ask(instance.Terminated, nil, 1)
	})
}
