package instance

// State is the state of an EC2 instance, in EC2's own words.
type State string

// The states of an EC2 instance.
const (
	Pending      State = "pending"
	Running      State = "running"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
)

// ParseState returns the state whose whole word is s, and false when EC2 has
// no such state.
func ParseState(s string) (State, bool) {
	switch st := State(s); st {
	case Pending, Running, Stopping, Stopped, ShuttingDown, Terminated:
		return st, true
	default:
		return "", false
	}
}

// Starting reports whether the instance is on its way up or there: such an
// instance may be given a key and a token.
func (s State) Starting() bool { return s == Pending || s == Running }

// Ending reports whether the instance will never run again.
func (s State) Ending() bool { return s == ShuttingDown || s == Terminated }
