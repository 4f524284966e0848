package property

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

// errKilled ends the calls of a replica that is no more.
var errKilled = errors.New("the process was killed")

// schedule holds up every call that a replica makes, to the API server and to
// EC2, until the test lets it go. So the test decides in which order the calls
// of operations that run at the same time take effect, and what becomes of each.
// It works inside a synctest bubble only.
type schedule struct {
	mu      sync.Mutex
	waiting []*heldCall
	busy    map[int]bool // operations under way
	next    int
}

// heldCall is a call that waits.
type heldCall struct {
	operation int // 0: a replica's own loop
	replica   int
	what      string
	answer    chan error
}

func (c *heldCall) String() string {
	return fmt.Sprintf("operation %d of replica %d: %s", c.operation, c.replica, c.what)
}

// operationKey is the key in a context of the operation that runs with it.
type operationKey struct{}

// start begins an operation. It comes to a stand at its first call, or ends.
func (s *schedule) start(ctx context.Context, f func(ctx context.Context)) {
	s.next++
	number := s.next
	s.mu.Lock()
	s.busy[number] = true
	s.mu.Unlock()
	go func() {
		f(context.WithValue(ctx, operationKey{}, number))
		s.mu.Lock()
		delete(s.busy, number)
		s.mu.Unlock()
	}()
	synctest.Wait()
}

// hold is what a replica's calls go through. It returns when the test lets the
// call go, with what should come of it, or when the replica is killed.
func (s *schedule) hold(ctx context.Context, replica int, killed <-chan struct{}, what string) error {
	operation, _ := ctx.Value(operationKey{}).(int)
	c := &heldCall{operation: operation, replica: replica, what: what, answer: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	select {
	case err := <-c.answer:
		return err
	case <-killed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *heldCall) bool { return other == c })
	return errKilled
}

// hook is hold for an apitest.Client.
func (s *schedule) hook(replica int, killed <-chan struct{}) apitest.Hook {
	return func(ctx context.Context, c apitest.Call) error {
		return s.hold(ctx, replica, killed, c.Verb+" "+c.Resource+" "+c.Namespace+"/"+c.Name)
	}
}

// held returns the calls that wait, in an order that does not depend on chance.
func (s *schedule) held() []*heldCall {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := slices.Clone(s.waiting)
	slices.SortStableFunc(calls, func(a, b *heldCall) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.replica, b.replica), cmp.Compare(a.what, b.what))
	})
	return calls
}

// release lets one call go and returns when whatever follows from it has come
// to a stand again.
func (s *schedule) release(c *heldCall, fault error) {
	s.mu.Lock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *heldCall) bool { return other == c })
	s.mu.Unlock()
	c.answer <- fault
	synctest.Wait()
}

// finish lets everything run to its end without faults.
func (s *schedule) finish() {
	for calls := s.held(); len(calls) > 0; calls = s.held() {
		s.release(calls[0], nil)
	}
}

// running is how many operations have not ended.
func (s *schedule) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.busy)
}
