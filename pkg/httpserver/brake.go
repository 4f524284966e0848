package httpserver

import (
	"sync/atomic"

	"golang.org/x/time/rate"
)

// brake lets so many log lines a second through and counts the others, so that
// a flood of requests is no flood of lines.
type brake struct {
	lines *rate.Limiter
	held  atomic.Int64
}

func newBrake(linesPerSecond int) *brake {
	return &brake{lines: rate.NewLimiter(rate.Limit(linesPerSecond), linesPerSecond)}
}

// pass reports whether a line may be written now, and how many were held back
// since the one before.
func (b *brake) pass() (held int64, ok bool) {
	if !b.lines.Allow() {
		b.held.Add(1)
		return 0, false
	}
	return b.held.Swap(0), true
}
