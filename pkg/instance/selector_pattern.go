package instance

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// pattern is an EC2 filter value, cut at its stars: the first segment must
// begin the value, the last must end it, and those between must follow each
// other in it. Taking the leftmost place for each is always right, because a
// segment has a fixed length; so nothing is ever tried twice and no pattern
// makes matching blow up.
type pattern struct {
	segments []segment
}

// compilePattern parses text. A backslash before anything but *, ? and
// another backslash is refused: EC2 does not say what it would mean.
func compilePattern(text string) (pattern, error) {
	if !utf8.ValidString(text) {
		return pattern{}, errors.New("is not UTF-8: write it in UTF-8")
	}
	var p pattern
	var current segment
	characters, escaped := 0, false
	for _, r := range text {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '*':
			p.add(current)
			current = segment{}
			continue
		case escaped && !strings.ContainsRune(`*?\`, r):
			return pattern{}, errors.New(`has a backslash before something else than *, ? or \: write \\ for a backslash`)
		}
		if characters++; characters > maxTagValue {
			return pattern{}, fmt.Errorf("wants more than the %d characters of the longest tag value", maxTagValue)
		}
		current.add(r, !escaped && r == '?')
		escaped = false
	}
	if escaped {
		return pattern{}, errors.New(`ends with a single backslash: write \\ for a backslash`)
	}
	p.segments = append(p.segments, current)
	return p, nil
}

// add appends the segment that a star has ended, unless it stood between two
// stars and is empty: then the two are one.
func (p *pattern) add(s segment) {
	if len(p.segments) == 0 || len(s.characters) > 0 {
		p.segments = append(p.segments, s)
	}
}

// match reports whether the pattern covers the whole value.
func (p *pattern) match(value string) bool {
	last := len(p.segments) - 1
	rest, ok := p.segments[0].cutPrefix(value)
	if last == 0 {
		return ok && rest == ""
	}
	if ok {
		rest, ok = p.segments[last].cutSuffix(rest)
	}
	for i := 1; ok && i < last; i++ {
		rest, ok = p.segments[i].cutFirst(rest)
	}
	return ok
}
