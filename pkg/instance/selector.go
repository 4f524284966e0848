package instance

import (
	"errors"
	"slices"
)

// Selector decides by an instance's tags whether the instance is ours. The
// zero Selector matches nothing; values come from NewSelector or MatchAll and
// never change, so they may be shared.
type Selector struct {
	all        bool
	conditions []condition
}

// errNoConditions keeps a forgotten selector from matching a whole account.
var errNoConditions = errors.New("selector has no conditions: write matchAll: true if every instance is meant")

// NewSelector returns a Selector that matches when all conditions hold. The
// first condition that makes no sense is an error, which names the
// condition's index and key and says how to mend it; so is an empty list.
func NewSelector(conditions []Condition) (Selector, error) {
	if len(conditions) == 0 {
		return Selector{}, errNoConditions
	}
	s := Selector{conditions: make([]condition, 0, len(conditions))}
	for i, c := range conditions {
		compiled, err := compile(i, c)
		if err != nil {
			return Selector{}, err
		}
		s.conditions = append(s.conditions, compiled)
	}
	return s, nil
}

// MatchAll returns the Selector that matches every instance, tags or not.
func MatchAll() Selector { return Selector{all: true} }

// Matches reports whether an instance with these tags is selected. Keys and
// values are case-sensitive. An instance that was just launched has no tags
// for a while, and a selector of nothing but absent and notValues matches it.
func (s Selector) Matches(tags map[string]string) bool {
	if s.all {
		return true
	}
	for i := range s.conditions {
		if !s.conditions[i].holds(tags) {
			return false
		}
	}
	return len(s.conditions) > 0
}

// MatchesAll reports whether s came from MatchAll.
func (s Selector) MatchesAll() bool { return s.all }

// Conditions returns a copy of what NewSelector was given; nil for MatchAll
// and for the zero Selector.
func (s Selector) Conditions() []Condition {
	var out []Condition
	for _, c := range s.conditions {
		source := c.source
		source.Values = slices.Clone(source.Values)
		source.NotValues = slices.Clone(source.NotValues)
		out = append(out, source)
	}
	return out
}
