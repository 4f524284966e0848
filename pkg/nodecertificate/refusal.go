package nodecertificate

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds on what goes from a request into a condition and the log. A quoted text
// may be longer than its bytes.
const (
	maxQuoted = 96 // bytes before quoting; longer than any node's common name
	maxListed = 4
)

func refusef(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// quote makes any string one short line of printable ASCII.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "..."
	}
	return strconv.QuoteToASCII(s)
}

// quoteAll does the same with a list.
func quoteAll[S ~string](list []S) string {
	if len(list) == 0 {
		return "none"
	}
	var quoted []string
	for n, s := range list {
		if n == maxListed {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(list)-n))
			break
		}
		quoted = append(quoted, quote(string(s)))
	}
	return strings.Join(quoted, ", ")
}
