package poller

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

var errPanicked = errors.New("handler panicked")

// describePanic tells what the runtime says of its own panics. Of any other
// value only the type is told: it may hold a secret.
func describePanic(r any) string {
	if err, ok := r.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", r)
}

// panicStack lists function, file and line of the goroutine's frames, to be
// called by the deferred function that recovers. Unlike debug.Stack it leaves
// out the arguments, which may be bytes of a key.
func panicStack() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
