package instance

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// EC2's limits, in characters.
const (
	maxTagKey   = 128
	maxTagValue = 256
)

// Condition says something about one tag. At least one of its rules must be
// given, and all that are given must hold.
type Condition struct {
	// Key is the tag's key, case-sensitive, of 1 to 128 characters.
	Key string
	// Values are patterns: the tag must exist and its whole value must match
	// one of them. * stands for any run of characters, ? for any one; a
	// backslash takes the meaning from *, ? and itself. nil: no such rule.
	Values []string
	// NotValues are patterns too: the tag must be missing or its value match
	// none of them. nil: no such rule.
	NotValues []string
	// Exists wants the tag to be there, with any value, the empty one too.
	Exists bool
	// Absent wants the tag not to be there. It goes with no other rule.
	Absent bool
}

// condition is a Condition ready to be asked.
type condition struct {
	source            Condition
	values, notValues []pattern
}

// compile checks c and returns it with its patterns parsed and its lists
// copied. index is for the error only.
func compile(index int, c Condition) (condition, error) {
	c.Values, c.NotValues = slices.Clone(c.Values), slices.Clone(c.NotValues)
	out := condition{source: c}
	err := checkKey(c.Key)
	if err == nil {
		err = checkRules(c)
	}
	if err == nil {
		out.values, err = compilePatterns("values", c.Values)
	}
	if err == nil {
		out.notValues, err = compilePatterns("notValues", c.NotValues)
	}
	if err != nil {
		return condition{}, fmt.Errorf("selector[%d] (key %.64q): %w", index, c.Key, err)
	}
	return out, nil
}

func checkKey(key string) error {
	switch n := utf8.RuneCountInString(key); {
	case key == "":
		return errors.New("key is empty: name the tag")
	case n > maxTagKey:
		return fmt.Errorf("key has %d characters: EC2 allows %d", n, maxTagKey)
	case !utf8.ValidString(key):
		return errors.New("key is not UTF-8: write it in UTF-8")
	}
	return nil
}

func checkRules(c Condition) error {
	switch {
	case c.Values != nil && len(c.Values) == 0:
		return errors.New("values is an empty list, which nothing matches: list patterns, or write exists: true")
	case c.NotValues != nil && len(c.NotValues) == 0:
		return errors.New("notValues is an empty list, which says nothing: list patterns, or leave it out")
	case c.Absent && c.Exists:
		return errors.New("exists and absent contradict each other: keep one")
	case c.Absent && (c.Values != nil || c.NotValues != nil):
		return errors.New("absent goes with no values or notValues: keep one")
	case c.Values == nil && c.NotValues == nil && !c.Exists && !c.Absent:
		return errors.New("says nothing about the tag: give values, notValues, exists: true or absent: true")
	}
	return nil
}

func compilePatterns(field string, texts []string) ([]pattern, error) {
	var out []pattern
	for i, text := range texts {
		p, err := compilePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] %.64q: %w", field, i, text, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// holds reports whether the tags satisfy every rule of c.
func (c *condition) holds(tags map[string]string) bool {
	value, found := tags[c.source.Key]
	switch {
	case c.source.Absent && found,
		c.source.Exists && !found,
		c.values != nil && (!found || !matchesAny(c.values, value)),
		found && matchesAny(c.notValues, value):
		return false
	}
	return true
}

func matchesAny(patterns []pattern, value string) bool {
	for i := range patterns {
		if patterns[i].match(value) {
			return true
		}
	}
	return false
}
