package apitest

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Call is one call to the API server.
type Call struct {
	// Verb is get, list, create, update, patch or delete.
	Verb string
	// Resource is Secrets or Nodes.
	Resource string
	// Namespace is empty for Nodes.
	Namespace string
	// Name is the object's name; for a list, its label selector.
	Name string
}

// Hook is called once before each call. With a nil error the call goes on.
// With one that AnswerLost made it goes on too, and its caller gets the error
// all the same; with any other its caller gets the error and nothing happens.
// The Server is not locked meanwhile: a hook may wait, and it may make calls
// with another Client.
type Hook func(ctx context.Context, c Call) error

// answerLost is an error after the fact.
type answerLost struct{ err error }

func (e *answerLost) Error() string { return e.err.Error() }
func (e *answerLost) Unwrap() error { return e.err }

// AnswerLost returns an error by which a Hook lets a call take effect while its
// caller gets err.
func AnswerLost(err error) error { return &answerLost{err} }

// Client makes calls to a Server in the name of one replica, or of a hand. It
// may be used by many goroutines.
type Client struct {
	server *Server
	hook   Hook

	mu    sync.Mutex
	calls []Call
}

// Client returns a Client whose calls go through the hook; nil lets all pass.
func (s *Server) Client(hook Hook) *Client { return &Client{server: s, hook: hook} }

// Calls returns the calls made so far, those that the hook let fail among them.
func (c *Client) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Count returns how many calls there were with one of the verbs; with any when
// none is given.
func (c *Client) Count(verbs ...string) int {
	n := 0
	for _, call := range c.Calls() {
		if len(verbs) == 0 || slices.Contains(verbs, call.Verb) {
			n++
		}
	}
	return n
}

// Forget empties the log of calls.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// do makes one call: the hook, then the effect as one atomic step.
func do[T any](ctx context.Context, c *Client, call Call, effect func() (T, error)) (T, error) {
	var none T
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()

	var fault error
	if c.hook != nil {
		fault = c.hook(ctx, call)
	}
	var lost *answerLost
	if fault != nil && !errors.As(fault, &lost) {
		return none, fault
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	result, err := effect()
	if lost != nil {
		return none, lost.err
	}
	if err != nil {
		return none, err
	}
	return result, nil
}
