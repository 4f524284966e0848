package instance

import "testing"

func TestParseState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state            State
		starting, ending bool
	}{
		{Pending, true, false},
		{Running, true, false},
		{Stopping, false, false},
		{Stopped, false, false},
		{ShuttingDown, false, true},
		{Terminated, false, true},
	}
	for _, tt := range tests {
		got, ok := ParseState(string(tt.state))
		if !ok || got != tt.state {
			t.Errorf("ParseState(%q) = %q, %v", tt.state, got, ok)
		}
		if tt.state.Starting() != tt.starting || tt.state.Ending() != tt.ending {
			t.Errorf("%s: Starting() = %v, Ending() = %v", tt.state, tt.state.Starting(), tt.state.Ending())
		}
	}
}

func TestParseStateWantsTheWholeWord(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", " ", "ing", "run", "runnin", "running ", " running", "Running", "RUNNING", "shutting down", "rebooting", "running,pending"} {
		if s, ok := ParseState(word); ok || s != "" {
			t.Errorf("ParseState(%q) = %q, %v; want none", word, s, ok)
		}
	}
	var none State
	if none.Starting() || none.Ending() {
		t.Error("no state is neither starting nor ending")
	}
}
