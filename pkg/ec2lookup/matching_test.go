package ec2lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func selector(t *testing.T, conditions ...instance.Condition) instance.Selector {
	t.Helper()
	s, err := instance.NewSelector(conditions)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func idsOf(instances []instance.Instance) []instance.ID {
	var ids []instance.ID
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return ids
}

func TestMatching(t *testing.T) {
	t.Parallel()
	const running, pending = types.InstanceStateNameRunning, types.InstanceStateNamePending
	api := &everythingEC2{pages: [][]types.Instance{
		{
			described(string(numbered(1)), running, "cluster", "home", "Name", "k8s-1"),
			described(string(numbered(2)), types.InstanceStateNameStopped, "cluster", "home", "Name", "k8s-2"),
			described(string(numbered(3)), running, "cluster", "HOME", "Name", "k8s-3"),
		},
		{
			described(string(numbered(4)), pending, "cluster", "home", "Name", "k8s-4"),
			described(string(numbered(1)), running, "cluster", "home", "Name", "k8s-1"), // moved to this page
			described(string(numbered(5)), types.InstanceStateNameTerminated, "cluster", "home", "Name", "k8s-5"),
			described(string(numbered(6)), running, "cluster", "home", "Name", "k8s-6", "retired", "yes"),
			described(string(numbered(7)), running),
			{},
		},
	}}
	home := instance.Condition{Key: "cluster", Values: []string{"home"}}
	tests := []struct {
		name     string
		selector instance.Selector
		want     []instance.ID
	}{
		{"one tag", selector(t, home), []instance.ID{numbered(1), numbered(4), numbered(6)}},
		{
			"several conditions",
			selector(t, home, instance.Condition{Key: "Name", Values: []string{"k8s-*"}}, instance.Condition{Key: "retired", Absent: true}),
			[]instance.ID{numbered(1), numbered(4)},
		},
		{
			"only what must not be",
			selector(t, instance.Condition{Key: "cluster", NotValues: []string{"home"}}),
			[]instance.ID{numbered(3), numbered(7)},
		},
		{"all", instance.MatchAll(), []instance.ID{numbered(1), numbered(3), numbered(4), numbered(6), numbered(7)}},
		{"none", selector(t, instance.Condition{Key: "x", Exists: true}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := New(api, Config{Logger: quiet()}).Matching(t.Context(), tt.selector)
			if err != nil || !slices.Equal(idsOf(got), tt.want) {
				t.Errorf("Matching = %v, %v; want %v", idsOf(got), err, tt.want)
			}
		})
	}
}

func TestMatchingNothingAsksNothing(t *testing.T) {
	t.Parallel()
	api := &everythingEC2{pages: [][]types.Instance{{described(string(idA), types.InstanceStateNameRunning)}}}
	got, err := New(api, Config{Logger: quiet()}).Matching(t.Context(), instance.Selector{})
	if err != nil || got != nil || len(api.calls()) != 0 {
		t.Errorf("the zero Selector: %v, %v after %d calls", got, err, len(api.calls()))
	}
}

func TestMatchingFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := []types.Instance{described(string(idA), types.InstanceStateNameRunning)}
		partial := New(&partialEC2{first: first}, Config{Logger: quiet()})
		if got, err := partial.Matching(t.Context(), instance.MatchAll()); !errors.Is(err, errBroken) || got != nil {
			t.Errorf("partial: %v, %v; half an answer must not pass for a whole one", got, err)
		}
		slow := New(&slowEC2{after: time.Hour, next: &emptyEC2{}}, Config{Timeout: time.Minute, Logger: quiet()})
		start := time.Now()
		if got, err := slow.Matching(t.Context(), instance.MatchAll()); !errors.Is(err, context.DeadlineExceeded) || got != nil {
			t.Errorf("slow: %v, %v", got, err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("gave up after %v", took)
		}
		stuck := &stuckEC2{page: first}
		if got, err := New(stuck, Config{Logger: quiet()}).Matching(t.Context(), instance.MatchAll()); err != nil || len(got) != 1 {
			t.Errorf("stuck: %v, %v", got, err)
		}
		if n := len(stuck.calls()); n > 2 {
			t.Errorf("followed the same page %d times", n)
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	const states = "instance-state-name=pending|running"
	many := slices.Repeat([]string{"v"}, maxFilterValues+1)
	var conditions []instance.Condition
	for i := range 60 {
		conditions = append(conditions, instance.Condition{Key: fmt.Sprintf("k%d", i), Values: []string{"v"}})
	}
	var fifty []string
	for i := range maxFilters - 1 {
		fifty = append(fifty, fmt.Sprintf("tag:k%d=v", i))
	}
	tests := []struct {
		name       string
		conditions []instance.Condition
		want       []string // after the states
	}{
		{"values", []instance.Condition{{Key: "a b/c.D:e", Values: []string{"x", "y*", "?"}}}, []string{"tag:a b/c.D:e=x|y*|?"}},
		{"exists", []instance.Condition{{Key: "k", Exists: true}}, []string{"tag-key=k"}},
		{"values and exists", []instance.Condition{{Key: "k", Values: []string{"v"}, Exists: true}}, []string{"tag:k=v"}},
		{"values and notValues", []instance.Condition{{Key: "k", Values: []string{"v*"}, NotValues: []string{"vw"}}}, []string{"tag:k=v*"}},
		{"absent", []instance.Condition{{Key: "k", Absent: true}}, nil},
		{"notValues", []instance.Condition{{Key: "k", NotValues: []string{"v"}}}, nil},
		{"exists and notValues", []instance.Condition{{Key: "k", NotValues: []string{"v"}, Exists: true}}, []string{"tag-key=k"}},
		{"escaped value", []instance.Condition{{Key: "k", Values: []string{"v", `\*`}}}, []string{"tag-key=k"}},
		{"empty value", []instance.Condition{{Key: "k", Values: []string{""}}}, []string{"tag-key=k"}},
		{"long value", []instance.Condition{{Key: "k", Values: []string{strings.Repeat("v", 256)}}}, []string{"tag-key=k"}},
		{"too many values", []instance.Condition{{Key: "k", Values: many}}, []string{"tag-key=k"}},
		{"key with a wildcard", []instance.Condition{{Key: "k*", Values: []string{"v"}}, {Key: `k\`, Exists: true}}, nil},
		{"one key twice", []instance.Condition{{Key: "k", Values: []string{"a*"}}, {Key: "k", Values: []string{"*z"}}}, []string{"tag:k=a*"}},
		{"two that exist", []instance.Condition{{Key: "k", Exists: true}, {Key: "l", Exists: true}}, []string{"tag-key=k"}},
		{"too many conditions", conditions, fifty},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := &emptyEC2{}
			if _, err := New(api, Config{Logger: quiet()}).Matching(t.Context(), selector(t, tt.conditions...)); err != nil {
				t.Fatal(err)
			}
			got := written(api.calls()[0].Filters)
			if want := append([]string{states}, tt.want...); !slices.Equal(got, want) {
				t.Errorf("filters %q, want %q", got, want)
			}
		})
	}
	if got := written(filters(instance.MatchAll())); !slices.Equal(got, []string{states}) {
		t.Errorf("match all: filters %q", got)
	}
}

func written(filters []types.Filter) []string {
	var out []string
	for _, f := range filters {
		out = append(out, aws.ToString(f.Name)+"="+strings.Join(f.Values, "|"))
	}
	return out
}
