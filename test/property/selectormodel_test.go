package property

import (
	"slices"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// glyph is one element of a pattern.
type glyph struct {
	star, any bool
	literal   rune
}

// letters are few, so that patterns match often, and hold what might be
// mistaken: wildcards, the escape itself, both cases, characters of several
// bytes.
var letters = []rune(`aAb*?\é世 /`)

func glyphs() *rapid.Generator[[]glyph] {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Map(rapid.SampledFrom(letters), func(r rune) glyph { return glyph{literal: r} }),
		rapid.SampledFrom([]glyph{{star: true}, {any: true}}),
	), 0, 7)
}

// write is the pattern as an operator would write it.
func write(pattern []glyph) string {
	var b strings.Builder
	for _, g := range pattern {
		switch {
		case g.star:
			b.WriteByte('*')
		case g.any:
			b.WriteByte('?')
		default:
			if strings.ContainsRune(`*?\`, g.literal) {
				b.WriteByte('\\')
			}
			b.WriteRune(g.literal)
		}
	}
	return b.String()
}

// covers is the meaning of a pattern, written down without a thought for time.
func covers(pattern []glyph, value []rune) bool {
	if len(pattern) == 0 {
		return len(value) == 0
	}
	switch first, rest := pattern[0], pattern[1:]; {
	case first.star:
		for skip := range len(value) + 1 {
			if covers(rest, value[skip:]) {
				return true
			}
		}
		return false
	case len(value) == 0:
		return false
	default:
		return (first.any || first.literal == value[0]) && covers(rest, value[1:])
	}
}

// rule is the model of one Condition. A nil list is no rule.
type rule struct {
	key               string
	values, notValues [][]glyph
	exists, absent    bool
}

func (r rule) condition() instance.Condition {
	return instance.Condition{
		Key: r.key, Values: writeAll(r.values), NotValues: writeAll(r.notValues), Exists: r.exists, Absent: r.absent,
	}
}

func writeAll(patterns [][]glyph) []string {
	if patterns == nil {
		return nil
	}
	texts := make([]string, 0, len(patterns))
	for _, p := range patterns {
		texts = append(texts, write(p))
	}
	return texts
}

// holds is the meaning of a rule, sentence by sentence as documented.
func (r rule) holds(tags map[string]string) bool {
	value, there := tags[r.key]
	coversValue := func(p []glyph) bool { return covers(p, []rune(value)) }
	if r.values != nil && (!there || !slices.ContainsFunc(r.values, coversValue)) {
		return false
	}
	if r.notValues != nil && there && slices.ContainsFunc(r.notValues, coversValue) {
		return false
	}
	return (!r.exists || there) && (!r.absent || !there)
}

var keyNames = []string{"Name", "name", "k8s.io/Role", "a b"}

// rules generates rules that make sense.
func rules() *rapid.Generator[rule] {
	return rapid.Custom(func(t *rapid.T) rule {
		r := rule{key: rapid.SampledFrom(keyNames).Draw(t, "key")}
		if rapid.IntRange(0, 5).Draw(t, "absent") == 0 {
			r.absent = true
			return r
		}
		patterns := rapid.SliceOfN(glyphs(), 1, 3)
		which := rapid.IntRange(1, 7).Draw(t, "which")
		if which&1 != 0 {
			r.values = patterns.Draw(t, "values")
		}
		if which&2 != 0 {
			r.notValues = patterns.Draw(t, "notValues")
		}
		r.exists = which&4 != 0
		return r
	})
}

func someTags() *rapid.Generator[map[string]string] {
	value := rapid.StringOfN(rapid.SampledFrom(letters), 0, 7, -1)
	return rapid.MapOfN(rapid.SampledFrom(keyNames), value, 0, len(keyNames))
}

// sensible is the documentation of Condition, turned into a question. It is
// asked of conditions that glyphs and rules did not make.
func sensible(c instance.Condition) bool {
	switch {
	case c.Key == "" || !utf8.ValidString(c.Key) || utf8.RuneCountInString(c.Key) > 128:
		return false
	case c.Values == nil && c.NotValues == nil && !c.Exists && !c.Absent:
		return false
	case c.Absent && (c.Exists || c.Values != nil || c.NotValues != nil):
		return false
	case c.Values != nil && len(c.Values) == 0, c.NotValues != nil && len(c.NotValues) == 0:
		return false
	}
	return !slices.ContainsFunc(append(slices.Clone(c.Values), c.NotValues...), func(p string) bool { return !wellFormed(p) })
}

// wellFormed takes away what is well formed, and looks whether a backslash is
// left.
func wellFormed(pattern string) bool {
	rest := strings.NewReplacer(`\\`, "x", `\*`, "x", `\?`, "x").Replace(pattern)
	return utf8.ValidString(pattern) && !strings.Contains(rest, `\`) &&
		utf8.RuneCountInString(strings.ReplaceAll(rest, "*", "")) <= 256
}
