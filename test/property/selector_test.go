package property

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func selectorOf(t *rapid.T, conditions ...instance.Condition) instance.Selector {
	t.Helper()
	s, err := instance.NewSelector(conditions)
	if err != nil {
		t.Fatalf("sensible conditions are refused: %v\n%+v", err, conditions)
	}
	return s
}

// A selector matches exactly when each of its rules holds, by a model that is
// slow and plain.
func TestSelectorIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rules(), 1, 3).Draw(t, "rules")
		var conditions []instance.Condition
		for _, r := range drawn {
			conditions = append(conditions, r.condition())
		}
		s := selectorOf(t, conditions...)
		for range 5 {
			tags := someTags().Draw(t, "tags")
			want := true
			for _, r := range drawn {
				want = want && r.holds(tags)
			}
			if got := s.Matches(tags); got != want {
				t.Fatalf("%+v matches %q: %v, want %v", conditions, tags, got, want)
			}
		}
	})
}

// One more condition never lets more instances in, and their order is nothing.
func TestConditionsOnlyNarrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := selectorOf(t, rules().Draw(t, "rule").condition())
		added := rules().Draw(t, "added").condition()
		more := selectorOf(t, append(few.Conditions(), added)...)
		turned := selectorOf(t, append([]instance.Condition{added}, few.Conditions()...)...)
		tags := someTags().Draw(t, "tags")
		if more.Matches(tags) && !few.Matches(tags) {
			t.Fatalf("%q matches only with the condition %+v", tags, added)
		}
		if more.Matches(tags) != turned.Matches(tags) {
			t.Fatalf("the order of conditions matters for %q", tags)
		}
	})
}

// While the tag is there, notValues is values turned round; while it is not,
// values never holds and notValues always does.
func TestNotValuesIsTheNegationOfValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		patterns := writeAll(rapid.SliceOfN(glyphs(), 1, 3).Draw(t, "patterns"))
		in := selectorOf(t, instance.Condition{Key: "Name", Values: patterns})
		out := selectorOf(t, instance.Condition{Key: "Name", NotValues: patterns})
		tags := someTags().Draw(t, "tags")
		_, there := tags["Name"]
		if there && in.Matches(tags) == out.Matches(tags) {
			t.Fatalf("values and notValues %q agree about %q", patterns, tags)
		}
		if !there && (in.Matches(tags) || !out.Matches(tags)) {
			t.Fatalf("a missing tag is not treated as documented: %q", tags)
		}
	})
}

// Of two words that differ in the case of one letter, a pattern that is one of
// them matches only that one; the same holds for keys.
func TestSelectorsKeepCase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "word")
		at := rapid.IntRange(0, len(word)-1).Draw(t, "at")
		other := word[:at] + strings.ToUpper(word[at:at+1]) + word[at+1:]
		byValue := selectorOf(t, instance.Condition{Key: "Name", Values: []string{word}})
		byKey := selectorOf(t, instance.Condition{Key: word, Exists: true})
		if !byValue.Matches(map[string]string{"Name": word}) || byValue.Matches(map[string]string{"Name": other}) {
			t.Fatalf("the value %q does not keep its case", word)
		}
		if !byKey.Matches(map[string]string{word: ""}) || byKey.Matches(map[string]string{other: ""}) {
			t.Fatalf("the key %q does not keep its case", word)
		}
	})
}

// MatchAll matches whatever there is, and the zero Selector nothing.
func TestMatchAllAndNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tags := someTags().Draw(t, "tags")
		if !instance.MatchAll().Matches(tags) || !instance.MatchAll().Matches(nil) {
			t.Fatalf("MatchAll does not match %q", tags)
		}
		if (instance.Selector{}).Matches(tags) || (instance.Selector{}).Matches(nil) {
			t.Fatalf("the zero Selector matches %q", tags)
		}
	})
}

// NewSelector takes what is documented to make sense and nothing else, and its
// error names the first condition that does not.
func TestNewSelectorTakesWhatMakesSense(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom(letters), 0, 6, -1),
		rapid.SampledFrom([]string{`\`, `a\`, `\\\`, `\a`, `\*`, "\xff", strings.Repeat("ä", 256), strings.Repeat("ä", 257), strings.Repeat("a*", 256)}),
	)
	list := rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfN(text, 0, 2))
	key := rapid.SampledFrom([]string{"", "Name", "\xff", strings.Repeat("é", 128), strings.Repeat("é", 129)})
	anything := rapid.Custom(func(t *rapid.T) instance.Condition {
		return instance.Condition{
			Key: key.Draw(t, "key"), Values: list.Draw(t, "values"), NotValues: list.Draw(t, "notValues"),
			Exists: rapid.Bool().Draw(t, "exists"), Absent: rapid.Bool().Draw(t, "absent"),
		}
	})
	one := rapid.OneOf(anything, rapid.Map(rules(), rule.condition))
	rapid.Check(t, func(t *rapid.T) {
		conditions := rapid.SliceOfN(one, 0, 3).Draw(t, "conditions")
		bad := -1
		for i := len(conditions) - 1; i >= 0; i-- {
			if !sensible(conditions[i]) {
				bad = i
			}
		}
		_, err := instance.NewSelector(conditions)
		switch {
		case (err == nil) != (bad < 0 && len(conditions) > 0):
			t.Fatalf("%+v: error %v", conditions, err)
		case bad >= 0 && !strings.Contains(err.Error(), fmt.Sprintf("selector[%d]", bad)):
			t.Fatalf("the error does not name condition %d: %v", bad, err)
		case err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1024):
			t.Fatalf("the error is not one short line: %q", err)
		}
	})
}

// What Conditions returns makes the same selector again, and is nobody's but
// the caller's. Matching leaves the tags alone.
func TestConditionsAreACopy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := selectorOf(t, rules().Draw(t, "rule").condition())
		tags := someTags().Draw(t, "tags")
		before, want := maps.Clone(tags), s.Matches(tags)
		again := selectorOf(t, s.Conditions()...)
		for _, c := range s.Conditions() {
			for _, list := range [][]string{c.Values, c.NotValues} {
				for i := range list {
					list[i] = "overwritten"
				}
			}
		}
		if s.Matches(tags) != want || again.Matches(tags) != want || !maps.Equal(before, tags) {
			t.Fatalf("a selector or the tags %q changed", before)
		}
	})
}
