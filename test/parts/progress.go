//go:build linux

package parts

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// heartbeat is how often a long step says that it is still at work.
const heartbeat = 25 * time.Second

// progress prints one line a step, with the time since the part was begun.
type progress struct {
	part  string
	start time.Time

	mu sync.Mutex // one line at a time
	w  io.Writer
}

// newProgress returns a progress that writes to w; a nil w is silence.
func newProgress(w io.Writer, part string) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{part: part, start: time.Now(), w: w}
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.w, "%6s  %s: %s\n", // progress that cannot be shown stops nothing
		time.Since(p.start).Round(time.Second), p.part, fmt.Sprintf(format, args...))
}

// step announces a step and says now and then that it goes on, until done is
// called.
func (p *progress) step(format string, args ...any) (done func()) {
	what := fmt.Sprintf(format, args...)
	p.printf("%s", what)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for begun := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.printf("… %s (at it for %s)", what, time.Since(begun).Round(time.Second))
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop); <-stopped })
}
