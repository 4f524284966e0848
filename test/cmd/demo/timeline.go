//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// timeline prints what happens and when.
type timeline struct {
	w     io.Writer
	begun time.Time
}

func newTimeline(w io.Writer) *timeline { return &timeline{w, time.Now()} }

// start makes now the time zero: what was built before is not part of the show.
func (t *timeline) start() { t.begun = time.Now() }

func (t *timeline) act(format string, args ...any) {
	_, _ = fmt.Fprintf(t.w, "\n%s\n", fmt.Sprintf(format, args...)) // a show that nobody sees goes on
}

func (t *timeline) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.w, "%6.1fs  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}

// raw prints lines as they are.
func (t *timeline) raw(text string) { _, _ = fmt.Fprintln(t.w, text) }

// patience is how long one step may take, on a slow machine.
const patience = 2 * time.Minute

// await waits until f returns nil, and says what happened and how long it took.
func (t *timeline) await(ctx context.Context, what string, f func() error) error {
	begun := time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			t.say("✓ %s (after %.1fs)", what, time.Since(begun).Seconds())
			return nil
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("%s: did not happen within %s: %w", what, patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
