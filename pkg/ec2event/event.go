// Package ec2event turns the body of a queue message into a small typed
// value. It is pure: no JSON and no AWS types go past it, and no body makes it
// panic.
package ec2event

import (
	"errors"
	"fmt"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Kind says what an Event is good for.
type Kind string

const (
	// KindStateChange is a change of an instance's state, or a hint that comes
	// to the same.
	KindStateChange Kind = "state-change"
	// KindOther is a well-formed message that asks nothing of this program.
	KindOther Kind = "other"
)

// Event is what a message says.
type Event struct {
	Kind Kind
	// ID is EventBridge's id of the event; empty when the message has none,
	// as those that Auto Scaling sends itself.
	ID string
	// Source and DetailType name the event in EventBridge's words. Messages
	// that did not come from EventBridge get the nearest ones.
	Source, DetailType string
	// Time is when it happened, in UTC; zero when missing or not a time.
	Time time.Time
	// InstanceID and State are set in every KindStateChange and in no other.
	InstanceID instance.ID
	State      instance.State
}

// ErrMalformed says that a body cannot be understood. Parse wraps it with the
// reason, one line of at most 512 bytes.
var ErrMalformed = errors.New("malformed message")

// malformed wraps ErrMalformed with a reason.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
