package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// maxProblems bounds an error's length: a file that is no configuration at all
// has a problem in every line.
const maxProblems = 50

// problem is one thing that is wrong: where and what.
type problem struct{ path, text string }

// problems collects all that is wrong, so that one look mends it all.
type problems []problem

func (p *problems) addf(path, format string, args ...any) {
	*p = append(*p, problem{path: path, text: fmt.Sprintf(format, args...)})
}

// err returns nil when there is no problem, else an error with one line each.
// origin says what set the field at a path, "" for the file.
func (p problems) err(origin func(path string) string) error {
	var all []error
	for _, one := range p[:min(len(p), maxProblems)] {
		text := one.text
		if one.path != "" {
			text = one.path + ": " + text
		}
		if by := origin(one.path); by != "" {
			text += " (set by " + by + ")"
		}
		all = append(all, errors.New(text))
	}
	if rest := len(p) - maxProblems; rest > 0 {
		all = append(all, fmt.Errorf("and %d more problems", rest))
	}
	return errors.Join(all...)
}

// clip returns s fit for a message: short, and quoted when it has characters
// that do not print.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// without returns the problems at paths that others are not about: what could
// not be read has its zero value, which is no second problem. When the file
// could not be read at all, which is a problem without a path, none is left.
func (p problems) without(others problems) problems {
	known := map[string]bool{}
	for _, o := range others {
		known[o.path] = true
	}
	return slices.DeleteFunc(p, func(one problem) bool { return known[one.path] || known[""] })
}
