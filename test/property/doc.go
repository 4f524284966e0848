// Package property holds tests of laws: of what must hold for every input, or
// after any sequence of events and faults. They need no real parts.
//
// A failure prints what it drew and writes a fail file; repeat it with
// -rapid.failfile, or look further with -rapid.checks and -rapid.steps.
package property
