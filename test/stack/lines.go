//go:build linux

package stack

import (
	"io"
	"sync"
)

// lines lets several writers share one; each writes whole lines. A nil w is
// silence.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	if l.w == nil {
		return len(b), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
