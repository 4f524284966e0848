package instance

import (
	"strings"
	"testing"
)

func TestPatternMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "A", false},
		{"a", "aa", false},
		{"*", "", true},
		{"*", "anything at all", true},
		{"**", "", true},
		{"?", "", false},
		{"?", "a", true},
		{"?", "é", true},
		{"?", "🙂", true},
		{"?", "ab", false},
		{"??", "éé", true},
		{"k8s-*", "k8s-", true},
		{"k8s-*", "k8s-worker-1", true},
		{"k8s-*", "K8s-1", false},
		{"k8s-*", "xk8s-1", false},
		{"*-prod", "web-prod", true},
		{"*-prod", "web-prod2", false},
		{"a*a", "a", false}, // one a cannot be both ends
		{"a*a", "aa", true},
		{"?*?", "a", false},
		{"?*?", "ab", true},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"*ab?d*", "abcabxd", true},
		{"*?b", "b", false},
		{"*?b", "xb", true},
		{"*?é*", "xé", true},
		{"a?c*", "abcd", true},
		{"*aab", "aaab", true},
		{"*ab*b", "ab", false}, // the end is not there twice
		{"*ab*b", "abb", true},
		{"*a?*?", "ab", false},
		{"*a?*?", "abc", true},
		{"*a?b*c", "aabbcc", true},
		{"****a****", "bbbabbb", true},
		{"****a****", "bbb", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`\?`, "?", true},
		{`\?`, "a", false},
		{`\\`, `\`, true},
		{`\\*`, `\abc`, true},
		{`\\\*`, `\*`, true},
		{`\*amazon\?\\`, `*amazon?\`, true}, // AWS's own example
		{`*\**`, "a*b", true},
		{`*\**`, "ab", false},
		{"a.c", "abc", false}, // no regular expression
		{"[a-c]", "b", false}, // no shell pattern
		{"a,b", "a", false},   // no list
		{"spaces and / : = + - @ . ÄÖ", "spaces and / : = + - @ . ÄÖ", true},
		{"\U0010ffff?", "\U0010ffffx", true},
	}
	for _, tt := range tests {
		t.Run(tt.pattern+" on "+tt.value, func(t *testing.T) {
			t.Parallel()
			p, err := compilePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.match(tt.value); got != tt.want {
				t.Errorf("match = %v, want %v", got, tt.want)
			}
			if naive := naiveMatch([]rune(tt.pattern), []rune(tt.value)); naive != tt.want {
				t.Errorf("naive match = %v, want %v", naive, tt.want)
			}
		})
	}
}

// TestPatternMatchIsLinear matches values a thousand times longer than a tag's
// with patterns that send a backtracking matcher into exponential time. It
// would not end within the test's time limit otherwise.
func TestPatternMatchIsLinear(t *testing.T) {
	t.Parallel()
	const size = 1 << 18
	value := strings.Repeat("a", size)
	for _, text := range []string{
		"****a****b",
		strings.Repeat("*a", 100) + "*b",
		strings.Repeat("*?", 100) + "*b",
		strings.Repeat("*a?", 80) + "*b",
		"*" + strings.Repeat("a", 200) + "b*",
		strings.Repeat("*", size) + "b",
	} {
		p, err := compilePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.match(value) {
			t.Errorf("%.32s… matches a value without b", text)
		}
		if !p.match(value + "b") {
			t.Errorf("%.32s… does not match with b at the end", text)
		}
	}
}

// naiveMatch is the definition of a match, written down without a thought for
// time.
func naiveMatch(pattern, value []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(value) == 0
	case pattern[0] == '*':
		return naiveMatch(pattern[1:], value) || len(value) > 0 && naiveMatch(pattern, value[1:])
	case len(value) == 0:
		return false
	case pattern[0] == '?':
		return naiveMatch(pattern[1:], value[1:])
	case pattern[0] == '\\':
		pattern = pattern[1:]
	}
	return pattern[0] == value[0] && naiveMatch(pattern[1:], value[1:])
}

func FuzzPatternMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"*", "a"}, {"?", "é"}, {"a*a", "a"}, {"*ab?d*", "abcabxd"}, {"****a****", "bab"},
		{`\*\?\\`, `*?\`}, {`\`, `\`}, {`a\b`, "ab"}, {"*?*?*", "🙂"}, {"k8s-*", "k8s-1"}, {"*aab*", "aaab"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		// The naive matcher needs exponential time; EC2's values are UTF-8.
		if len(text) > 16 || len(value) > 16 {
			return
		}
		value = strings.ToValidUTF8(value, "")
		p, err := compilePattern(text)
		if err != nil {
			return
		}
		if got, want := p.match(value), naiveMatch([]rune(text), []rune(value)); got != want {
			t.Errorf("match(%q, %q) = %v, want %v", text, value, got, want)
		}
	})
}
