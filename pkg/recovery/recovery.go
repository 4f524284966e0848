// Package recovery turns a recovered panic into an error that can be logged: no
// message and no instance may end the process, and no secret may be printed.
package recovery

import (
	"fmt"
	"runtime"
	"strings"
)

// Error describes a panic by what the runtime says of its own panics, or by the
// type of any other value, which may hold a secret, and by the functions under
// way. It is to be called by the deferred function that recovered r.
func Error(r any) error {
	if err, ok := r.(runtime.Error); ok {
		return fmt.Errorf("panic: %w\n%s", err, stack())
	}
	return fmt.Errorf("panic with a value of type %T\n%s", r, stack())
}

// stack lists function, file and line of the frames below the deferred
// function. Unlike debug.Stack it leaves out the arguments, which may be bytes
// of a key.
func stack() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s %s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
