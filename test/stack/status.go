//go:build linux

package stack

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// Status is what is known of one program of a stack.
type Status struct {
	Name string
	PID  int // 0 when it does not run
	// RSS is its resident memory in bytes.
	RSS int64
	Log string // path of its log
}

// Status returns the programs in the order in which they start.
func (s *Stack) Status() []Status {
	var all []Status
	for _, svc := range s.services() {
		st := Status{Name: svc.name, Log: svc.logFile()}
		if p, ok := svc.running(); ok {
			st.PID, st.RSS = p.number, resident(p.number)
		}
		all = append(all, st)
	}
	return all
}

// Running reports whether any program of the stack runs.
func (s *Stack) Running() bool {
	for _, st := range s.Status() {
		if st.PID != 0 {
			return true
		}
	}
	return false
}

// Whole reports whether every program of the stack runs and an event path was
// made, so that it can be used.
func (s *Stack) Whole() bool {
	for _, st := range s.Status() {
		if st.PID == 0 {
			return false
		}
	}
	return s.state.Path.QueueURL != ""
}

// services returns those that the stack has.
func (s *Stack) services() []*service {
	all := []*service{s.etcd, s.apiServer, s.controllerManager, s.ministack, s.moto}
	return slices.DeleteFunc(all, func(svc *service) bool { return svc == nil })
}

// resident reads the resident pages from /proc/<pid>/statm; 0 when it cannot.
func resident(number int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", number))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Fscan(bytes.NewReader(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
