package ec2lookup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	idA instance.ID = "i-0000000000000000a"
	idB instance.ID = "i-0000000000000000b"
	idC instance.ID = "i-0000000000000000c"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func numbered(n int) instance.ID { return instance.ID(fmt.Sprintf("i-%017x", n)) }

// numberedEC2 knows n running instances.
func numberedEC2(n int) *knowingEC2 {
	f := &knowingEC2{}
	for i := range n {
		f.instances = append(f.instances, described(string(numbered(i)), types.InstanceStateNameRunning))
	}
	return f
}

// lookUp asks for all ids at once, a goroutine each, and returns the answers
// in their order.
func lookUp(ctx context.Context, l *Lookup, ids ...instance.ID) ([]instance.Instance, []error) {
	found, errs := make([]instance.Instance, len(ids)), make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { found[i], errs[i] = l.Instance(ctx, id) })
	}
	wg.Wait()
	return found, errs
}

func TestInstanceCoalesces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := numberedEC2(50)
		l := New(api, Config{Logger: quiet()})
		ids := make([]instance.ID, 0, 100)
		for i := range 100 {
			ids = append(ids, numbered(i%50))
		}
		start := time.Now()
		found, errs := lookUp(t.Context(), l, ids...)
		if waited := time.Since(start); waited != defaultLinger {
			t.Errorf("waited %v, want the linger time %v", waited, defaultLinger)
		}
		for i := range ids {
			if errs[i] != nil || found[i].ID != ids[i] {
				t.Errorf("%s: %+v, %v", ids[i], found[i], errs[i])
			}
		}
		calls := api.calls()
		if len(calls) != 1 || len(filterValues(&calls[0], "instance-id")) != 50 {
			t.Fatalf("asked %v, want one call for 50 ids", api.idsAsked())
		}
		if calls[0].InstanceIds != nil {
			t.Error("asked by InstanceIds, which one unknown id spoils")
		}
	})
}

func TestInstanceLaterCallersAskAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &slowEC2{after: time.Second, next: numberedEC2(1)}
		l := New(api, Config{Logger: quiet()})
		go func() { _, _ = l.Instance(t.Context(), numbered(0)) }()
		time.Sleep(defaultLinger + time.Millisecond) // the first is under way
		if _, err := l.Instance(t.Context(), numbered(0)); err != nil {
			t.Error(err)
		}
		if n := len(api.calls()); n != 2 {
			t.Errorf("%d calls: who comes later must not get an older answer", n)
		}
	})
}

func TestInstanceAsksAtOnceWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := numberedEC2(450)
		l := New(api, Config{Linger: time.Hour, Logger: quiet()})
		ids := make([]instance.ID, 0, 400)
		for i := range 400 {
			ids = append(ids, numbered(i))
		}
		start := time.Now()
		_, errs := lookUp(t.Context(), l, ids...)
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("two full batches waited %v", waited)
		}
		for _, asked := range api.idsAsked() {
			if len(asked) != maxFilterValues {
				t.Errorf("asked for %d ids in a call, want %d", len(asked), maxFilterValues)
			}
		}
		if n := len(api.calls()); n != 2 {
			t.Errorf("%d calls for 400 ids", n)
		}
		if _, err := l.Instance(t.Context(), numbered(449)); err != nil { // the next batch is a new one
			t.Error(err)
		}
	})
}

func TestInstanceUnknownSpoilsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &knowingEC2{instances: []types.Instance{described(string(idA), types.InstanceStateNamePending)}}
		found, errs := lookUp(t.Context(), New(api, Config{Logger: quiet()}), idA, idB)
		if errs[0] != nil || found[0].State != instance.Pending {
			t.Errorf("the known one: %+v, %v", found[0], errs[0])
		}
		if !errors.Is(errs[1], instance.ErrNotFound) {
			t.Errorf("the unknown one: %v, want ErrNotFound", errs[1])
		}
	})
}

func TestInstanceReadsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		launched := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
		full := described(string(idA), types.InstanceStateNameRunning, "Name", "k8s-1", "empty", "")
		full.LaunchTime = aws.Time(launched)
		full.InstanceType = types.InstanceTypeT3Small
		full.Placement = &types.Placement{AvailabilityZone: aws.String("us-east-2a")}
		full.PrivateDnsName = aws.String("ip-10-0-0-1.us-east-2.compute.internal")
		got, err := New(&knowingEC2{instances: []types.Instance{full}}, Config{Logger: quiet()}).Instance(t.Context(), idA)
		want := instance.Instance{
			ID: idA, State: instance.Running, LaunchTime: launched, Type: "t3.small", Zone: "us-east-2a",
			PrivateDNSName: "ip-10-0-0-1.us-east-2.compute.internal",
			Tags:           map[string]string{"Name": "k8s-1", "empty": ""},
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Instance:\n got %+v, %v\nwant %+v", got, err, want)
		}
	})
}

func TestInstanceFaults(t *testing.T) {
	t.Parallel()
	known := numberedEC2(1)
	tests := []struct {
		name string
		api  ec2.DescribeInstancesAPIClient
		want error
	}{
		{"throttled", &throttledEC2{refusals: 1 << 30, next: known}, errThrottled},
		{"empty", &emptyEC2{}, instance.ErrNotFound},
		{"broken", &refusingEC2{err: errBroken}, errBroken},
		{"too slow", &slowEC2{after: time.Hour, next: known}, context.DeadlineExceeded},
		{"slow", &slowEC2{after: 20 * time.Second, next: known}, nil},
		{"everything but that", &everythingEC2{pages: [][]types.Instance{{described(string(idA), types.InstanceStateNameRunning)}}}, instance.ErrNotFound},
		{"stuck", &stuckEC2{page: []types.Instance{described(string(idA), types.InstanceStateNameRunning)}}, instance.ErrNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, err := New(tt.api, Config{Logger: quiet()}).Instance(t.Context(), numbered(0))
				if !errors.Is(err, tt.want) {
					t.Fatalf("Instance = %+v, %v; want %v", got, err, tt.want)
				}
				if tt.want == nil && got.ID != numbered(0) || tt.want != nil && got.ID != "" {
					t.Errorf("Instance = %+v beside %v", got, err)
				}
				if !errors.Is(tt.want, instance.ErrNotFound) && errors.Is(err, instance.ErrNotFound) {
					t.Errorf("%v counts as not found", err)
				}
			})
		})
	}
}

func TestInstanceAfterThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(&throttledEC2{refusals: 1, next: numberedEC2(1)}, Config{Logger: quiet()})
		_, err := l.Instance(t.Context(), numbered(0))
		var refused smithy.APIError
		if !errors.As(err, &refused) || refused.ErrorCode() != "RequestLimitExceeded" {
			t.Errorf("the error hides EC2's: %v", err)
		}
		if _, err := l.Instance(t.Context(), numbered(0)); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
}

func TestInstancePartialAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &partialEC2{first: []types.Instance{described(string(idA), types.InstanceStateNameRunning)}}
		found, errs := lookUp(t.Context(), New(api, Config{Logger: quiet()}), idA, idB)
		if errs[0] != nil || found[0].ID != idA {
			t.Errorf("the one on the good page: %+v, %v", found[0], errs[0])
		}
		if !errors.Is(errs[1], errBroken) || errors.Is(errs[1], instance.ErrNotFound) {
			t.Errorf("the other: %v, want the failure of the page", errs[1])
		}
	})
}

func TestInstanceCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &slowEC2{after: 10 * time.Second, next: numberedEC2(2)}
		l := New(api, Config{Logger: quiet()})
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.Instance(t.Context(), numbered(0)); err != nil {
				t.Errorf("the patient caller: %v", err)
			}
		})
		start := time.Now()
		_, err := l.Instance(hasty, numbered(0))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("the hasty caller: %v after %v", err, time.Since(start))
		}
		wg.Wait()
		if n := len(api.calls()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestInstanceCancelledBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &emptyEC2{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := New(api, Config{Logger: quiet()}).Instance(ctx, idA); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := len(api.calls()); n != 0 {
			t.Errorf("%d calls for a caller that had gone", n)
		}
	})
}

func TestInstanceSharesNoTags(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &knowingEC2{instances: []types.Instance{described(string(idA), types.InstanceStateNameRunning, "k", "v")}}
		found, errs := lookUp(t.Context(), New(api, Config{Logger: quiet()}), idA, idA)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		found[0].Tags["k"] = "changed"
		if found[1].Tags["k"] != "v" {
			t.Error("two callers share one map of tags")
		}
	})
}

func TestGarbledAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noState := described(string(idB), types.InstanceStateNameRunning)
		noState.State = nil
		bare := described(string(idA), types.InstanceStateNameRunning)
		bare.Tags = []types.Tag{{}, {Value: aws.String("v")}, {Key: aws.String("k")}}
		api := &everythingEC2{pages: [][]types.Instance{
			{}, {{}}, {noState, described("i-1,i-2", "running"), described("", "running")},
			{described(string(idC), "hibernating"), described(string(idC), "")}, {bare},
		}}
		var log bytes.Buffer
		l := New(api, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		found, err := l.Instances(t.Context(), []instance.ID{idA, idB, idC})
		want := map[instance.ID]instance.Instance{idA: {ID: idA, State: instance.Running, Tags: map[string]string{"k": ""}}}
		if err != nil || !reflect.DeepEqual(found, want) {
			t.Errorf("Instances:\n got %+v, %v\nwant %+v", found, err, want)
		}
		if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != 6 {
			t.Errorf("%d warnings for 6 instances that make no sense:\n%s", n, log.String())
		}
	})
}

func TestInstances(t *testing.T) {
	t.Parallel()
	api := numberedEC2(450)
	var ids []instance.ID
	for i := range 500 {
		ids = append(ids, numbered(i), numbered(i))
	}
	given := slices.Clone(ids)
	found, err := New(api, Config{Logger: quiet()}).Instances(t.Context(), ids)
	if err != nil || len(found) != 450 {
		t.Fatalf("%d instances, %v; want 450", len(found), err)
	}
	for id, i := range found {
		if i.ID != id {
			t.Errorf("%s is filed under %s", i.ID, id)
		}
	}
	if calls := api.calls(); len(calls) != 3 {
		t.Errorf("%d calls for 500 ids, want 3", len(calls))
	}
	if !slices.Equal(ids, given) {
		t.Error("the caller's list was changed")
	}
}

func TestInstancesOfNone(t *testing.T) {
	t.Parallel()
	api := &everythingEC2{pages: [][]types.Instance{{described(string(idA), types.InstanceStateNameRunning)}}}
	found, err := New(api, Config{Logger: quiet()}).Instances(t.Context(), nil)
	if err != nil || found == nil || len(found) != 0 || len(api.calls()) != 0 {
		t.Errorf("Instances(nil) = %v, %v after %d calls", found, err, len(api.calls()))
	}
}

func TestInstancesFollowsPagesAndIgnoresStrangers(t *testing.T) {
	t.Parallel()
	api := &everythingEC2{pages: [][]types.Instance{
		{described(string(idA), types.InstanceStateNameRunning), described(string(idC), types.InstanceStateNameRunning)},
		{},
		{described(string(idB), types.InstanceStateNameTerminated)},
	}}
	found, err := New(api, Config{Logger: quiet()}).Instances(t.Context(), []instance.ID{idB, idA})
	if err != nil || len(found) != 2 || found[idA].State != instance.Running || found[idB].State != instance.Terminated {
		t.Errorf("Instances = %+v, %v", found, err)
	}
}

func TestInstancesFailWhole(t *testing.T) {
	t.Parallel()
	ids := []instance.ID{idA, idB}
	partial := &partialEC2{first: []types.Instance{described(string(idA), types.InstanceStateNameRunning)}}
	if found, err := New(partial, Config{Logger: quiet()}).Instances(t.Context(), ids); !errors.Is(err, errBroken) || found != nil {
		t.Errorf("partial answer: %v, %v", found, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	slow := &slowEC2{after: time.Hour, next: &emptyEC2{}}
	if found, err := New(slow, Config{Logger: quiet()}).Instances(cancelled, ids); !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("cancelled: %v, %v", found, err)
	}
}
