package instance

import (
	"reflect"
	"strings"
	"testing"
)

func mustSelector(t testing.TB, conditions ...Condition) Selector {
	t.Helper()
	s, err := NewSelector(conditions)
	if err != nil {
		t.Fatalf("NewSelector(%+v): %v", conditions, err)
	}
	return s
}

func TestSelectorMatches(t *testing.T) {
	t.Parallel()
	tags := func(kv ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	cluster := Condition{Key: "dynk8s.du5t1n.me/cluster", Values: []string{"home"}}
	tests := []struct {
		name       string
		conditions []Condition
		tags       map[string]string
		want       bool
	}{
		{"value", []Condition{cluster}, tags("dynk8s.du5t1n.me/cluster", "home", "Name", "x"), true},
		{"value of another case", []Condition{cluster}, tags("dynk8s.du5t1n.me/cluster", "Home"), false},
		{"key of another case", []Condition{cluster}, tags("dynk8s.du5t1n.me/Cluster", "home"), false},
		{"value is only a part", []Condition{cluster}, tags("dynk8s.du5t1n.me/cluster", "home2"), false},
		{"tag missing", []Condition{cluster}, tags("Name", "home"), false},
		{"no tags", []Condition{cluster}, nil, false},
		{
			"key with spaces, slashes, dots and colons",
			[]Condition{{Key: "aws:auto scaling/group.Name", Values: []string{"a"}}},
			tags("aws:auto scaling/group.Name", "a"), true,
		},
		{
			"one of several values",
			[]Condition{{Key: "k", Values: []string{"a", "b*"}}},
			tags("k", "bcd"), true,
		},
		{
			"none of several values",
			[]Condition{{Key: "k", Values: []string{"a", "b*"}}},
			tags("k", "cb"), false,
		},
		{"empty value is a value", []Condition{{Key: "k", Values: []string{""}}}, tags("k", ""), true},
		{"empty value is not a missing tag", []Condition{{Key: "k", Values: []string{""}}}, nil, false},
		{"star matches the empty value", []Condition{{Key: "k", Values: []string{"*"}}}, tags("k", ""), true},
		{"star does not match a missing tag", []Condition{{Key: "k", Values: []string{"*"}}}, nil, false},
		{
			"all conditions must hold",
			[]Condition{cluster, {Key: "Name", Values: []string{"k8s-*"}}, {Key: "retired", Absent: true}},
			tags("dynk8s.du5t1n.me/cluster", "home", "Name", "k8s-3"), true,
		},
		{
			"one of them does not",
			[]Condition{cluster, {Key: "Name", Values: []string{"k8s-*"}}, {Key: "retired", Absent: true}},
			tags("dynk8s.du5t1n.me/cluster", "home", "Name", "k8s-3", "retired", ""), false,
		},
		{"exists with any value", []Condition{{Key: "k", Exists: true}}, tags("k", "v"), true},
		{"exists with the empty value", []Condition{{Key: "k", Exists: true}}, tags("k", ""), true},
		{"exists and missing", []Condition{{Key: "k", Exists: true}}, tags("K", "v"), false},
		{"absent and missing", []Condition{{Key: "k", Absent: true}}, tags("K", "v"), true},
		{"absent and there, empty", []Condition{{Key: "k", Absent: true}}, tags("k", ""), false},
		{"not values, another value", []Condition{{Key: "k", NotValues: []string{"a", "b*"}}}, tags("k", "c"), true},
		{"not values, one of them", []Condition{{Key: "k", NotValues: []string{"a", "b*"}}}, tags("k", "bb"), false},
		{"not values, tag missing", []Condition{{Key: "k", NotValues: []string{"a"}}}, nil, true},
		{
			"values and not values, both hold",
			[]Condition{{Key: "k", Values: []string{"web-*"}, NotValues: []string{"web-old*"}}},
			tags("k", "web-1"), true,
		},
		{
			"values and not values, the second does not",
			[]Condition{{Key: "k", Values: []string{"web-*"}, NotValues: []string{"web-old*"}}},
			tags("k", "web-old1"), false,
		},
		{
			"values and not values, tag missing",
			[]Condition{{Key: "k", Values: []string{"web-*"}, NotValues: []string{"web-old*"}}},
			nil, false,
		},
		{
			"exists and not values, tag missing",
			[]Condition{{Key: "k", Exists: true, NotValues: []string{"a"}}},
			nil, false,
		},
		{
			"exists and not values, another value",
			[]Condition{{Key: "k", Exists: true, NotValues: []string{"a"}}},
			tags("k", "b"), true,
		},
		{
			"two conditions on one key",
			[]Condition{{Key: "k", Values: []string{"a*"}}, {Key: "k", Values: []string{"*z"}}},
			tags("k", "abc"), false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := mustSelector(t, tt.conditions...)
			if got := s.Matches(tt.tags); got != tt.want {
				t.Errorf("Matches(%v) = %v, want %v", tt.tags, got, tt.want)
			}
			if s.MatchesAll() {
				t.Error("MatchesAll() = true for a selector with conditions")
			}
		})
	}
}

func TestZeroSelectorMatchesNothing(t *testing.T) {
	t.Parallel()
	var s Selector
	for _, tags := range []map[string]string{nil, {}, {"Name": "x"}} {
		if s.Matches(tags) {
			t.Errorf("the zero Selector matches %v", tags)
		}
	}
	if s.MatchesAll() || s.Conditions() != nil {
		t.Errorf("the zero Selector: MatchesAll() = %v, Conditions() = %v", s.MatchesAll(), s.Conditions())
	}
}

func TestMatchAll(t *testing.T) {
	t.Parallel()
	s := MatchAll()
	for _, tags := range []map[string]string{nil, {}, {"Name": "x"}} {
		if !s.Matches(tags) {
			t.Errorf("MatchAll does not match %v", tags)
		}
	}
	if !s.MatchesAll() || s.Conditions() != nil {
		t.Errorf("MatchAll: MatchesAll() = %v, Conditions() = %v", s.MatchesAll(), s.Conditions())
	}
}

func TestNewSelectorRefuses(t *testing.T) {
	t.Parallel()
	good := Condition{Key: "k", Exists: true}
	long := strings.Repeat("k", maxTagKey+1)
	tests := []struct {
		name       string
		conditions []Condition
		want       []string // parts of the error
	}{
		{"nil", nil, []string{"matchAll: true"}},
		{"empty", []Condition{}, []string{"matchAll: true"}},
		{"nothing said", []Condition{good, {Key: "Name"}}, []string{"selector[1]", `"Name"`, "exists: true"}},
		{"empty key", []Condition{{Values: []string{"a"}}}, []string{"selector[0]", "key is empty"}},
		{"long key", []Condition{{Key: long, Exists: true}}, []string{"selector[0]", "129", "128"}},
		{"key of broken UTF-8", []Condition{{Key: "\xff", Exists: true}}, []string{"UTF-8"}},
		{"no values", []Condition{{Key: "k", Values: []string{}}}, []string{`"k"`, "values is an empty list"}},
		{"no values beside exists", []Condition{{Key: "k", Values: []string{}, Exists: true}}, []string{"empty list"}},
		{"no notValues", []Condition{{Key: "k", NotValues: []string{}}}, []string{"notValues is an empty list"}},
		{"exists and absent", []Condition{{Key: "k", Exists: true, Absent: true}}, []string{"exists and absent"}},
		{"values and absent", []Condition{{Key: "k", Values: []string{"a"}, Absent: true}}, []string{"absent"}},
		{"notValues and absent", []Condition{{Key: "k", NotValues: []string{"a"}, Absent: true}}, []string{"absent"}},
		{
			"backslash at the end",
			[]Condition{{Key: "k", Values: []string{"a", `b\`}}},
			[]string{"values[1]", `write \\`},
		},
		{
			"backslash before a letter",
			[]Condition{{Key: "k", NotValues: []string{`b\n`}}},
			[]string{"notValues[0]", `write \\`},
		},
		{"pattern of broken UTF-8", []Condition{{Key: "k", Values: []string{"\xff"}}}, []string{"UTF-8"}},
		{
			"pattern longer than any value",
			[]Condition{{Key: "k", Values: []string{strings.Repeat("?", maxTagValue+1)}}},
			[]string{"values[0]", "256"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := NewSelector(tt.conditions)
			if err == nil {
				t.Fatalf("NewSelector accepts %+v", tt.conditions)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("error %q has several lines", err)
			}
			if s.Matches(map[string]string{"k": "a"}) {
				t.Error("the refused selector matches")
			}
		})
	}
}

func TestNewSelectorAcceptsTheLimits(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("é", maxTagKey) // characters, not bytes
	value := strings.Repeat("ü", maxTagValue)
	s := mustSelector(t, Condition{Key: key, Values: []string{"*" + strings.Repeat("?", maxTagValue) + "*"}})
	if !s.Matches(map[string]string{key: value}) {
		t.Error("the longest key, value and pattern do not match")
	}
	escaped := mustSelector(t, Condition{Key: "k", Values: []string{strings.Repeat(`\*`, maxTagValue)}})
	if !escaped.Matches(map[string]string{"k": strings.Repeat("*", maxTagValue)}) {
		t.Error("escapes count as characters")
	}
}

func TestSelectorKeepsItsOwnCopy(t *testing.T) {
	t.Parallel()
	given := []Condition{{Key: "k", Values: []string{"a"}, NotValues: []string{"b"}}}
	s := mustSelector(t, given...)
	want := s.Conditions()
	given[0].Key, given[0].Values[0], given[0].NotValues[0] = "x", "x", "x"
	got := s.Conditions()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Conditions() = %+v after the caller changed its list, want %+v", got, want)
	}
	got[0].Values[0], got[0].NotValues[0] = "y", "y"
	if again := s.Conditions(); !reflect.DeepEqual(again, want) {
		t.Errorf("Conditions() = %+v after its answer was changed, want %+v", again, want)
	}
	if !s.Matches(map[string]string{"k": "a"}) {
		t.Error("the selector no longer matches what it was made for")
	}
}

func BenchmarkSelectorMatches(b *testing.B) {
	s := mustSelector(b,
		Condition{Key: "dynk8s.du5t1n.me/cluster", Values: []string{"home"}},
		Condition{Key: "Name", Values: []string{"k8s-*", "worker-?-*"}},
		Condition{Key: "retired", Absent: true},
	)
	tags := map[string]string{"dynk8s.du5t1n.me/cluster": "home", "Name": "worker-7-eu", "owner": "ops"}
	b.ReportAllocs()
	for b.Loop() {
		if !s.Matches(tags) {
			b.Fatal("does not match")
		}
	}
}
