package ec2event

import (
	"strconv"
	"strings"
)

const (
	// maxWord bounds what goes from a body into an Event, in bytes.
	maxWord = 256
	// maxQuoted bounds what goes from a body into an error, in bytes before
	// quoting. It is longer than any instance id.
	maxQuoted = 48
)

// clip cuts s to at most limit bytes, never through a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// quote makes any string safe for one line of a log.
func quote(s string) string { return strconv.QuoteToASCII(clip(s, maxQuoted)) }
