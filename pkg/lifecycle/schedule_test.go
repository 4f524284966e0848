package lifecycle_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

// schedule decides which of the calls that wait goes next. Between two calls
// everything stands still, so the state can be looked at.
type schedule struct {
	rng *rand.Rand
	// others are what may happen between calls, besides the next call: each
	// reports whether it did anything.
	others []func() bool
	// fault is asked for the error of each call.
	fault func() error
	steps int

	mu      sync.Mutex
	running int
	parked  []parkedCall
}

type parkedCall struct {
	actor   string
	call    apitest.Call
	release chan error
}

// hook parks each call of an actor until it is chosen.
func (s *schedule) hook(actor string) apitest.Hook {
	return func(_ context.Context, c apitest.Call) error {
		p := parkedCall{actor, c, make(chan error)}
		s.mu.Lock()
		s.parked = append(s.parked, p)
		s.mu.Unlock()
		return <-p.release
	}
}

// wait gives actors that all sleep before they try again their time.
func (s *schedule) wait() {
	for range 100 {
		synctest.Wait()
		s.mu.Lock()
		idle := len(s.parked) == 0 && s.running > 0
		s.mu.Unlock()
		if !idle {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// act starts an actor.
func (s *schedule) act(f func()) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	go func() {
		f()
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
}

// run goes on until every actor has ended. After each step it calls check,
// which reports whether to go on checking.
func (s *schedule) run(check func() bool) {
	checking := true
	for {
		s.wait()
		if checking {
			checking = check()
		}
		next, ended := s.choose()
		if ended {
			return
		}
		s.steps++
		if len(s.others) > 0 && s.rng.IntN(5) == 0 && s.others[s.rng.IntN(len(s.others))]() {
			s.park(next)
			continue
		}
		var err error
		if s.fault != nil {
			err = s.fault()
		}
		next.release <- err
	}
}

func (s *schedule) park(p parkedCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = append(s.parked, p)
}

func (s *schedule) choose() (parkedCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) == 0 {
		if s.running > 0 {
			panic("actors wait for something else than a call")
		}
		return parkedCall{}, true
	}
	// The order in which they parked is the Go scheduler's.
	slices.SortStableFunc(s.parked, func(a, b parkedCall) int {
		return cmp.Compare(fmt.Sprint(a.actor, a.call), fmt.Sprint(b.actor, b.call))
	})
	i := s.rng.IntN(len(s.parked))
	next := s.parked[i]
	s.parked = slices.Delete(s.parked, i, i+1)
	return next, false
}
