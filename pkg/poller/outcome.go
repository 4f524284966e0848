package poller

import "errors"

// The outcomes that the poller itself decides on; a Handler has words of its
// own.
const (
	outcomeDone        = "done"    // handled, and the Handler had no word for it
	outcomeIgnored     = "ignored" // about something else
	outcomeRetry       = "retry"
	outcomeDuplicate   = "duplicate"   // settled by the pass of another message
	outcomeRedelivered = "redelivered" // received again while in hand
	outcomeCrowded     = "crowded"     // too many of its instance wait
	outcomeMalformed   = "malformed"   // a receive of a message that cannot be understood
	outcomeDiscarded   = "discarded"   // such a message, deleted in the end
)

func outcomeOf(result string, err error) string {
	if err == nil {
		return orElse(result, outcomeDone)
	}
	var named interface{ Outcome() string }
	if errors.As(err, &named) {
		return orElse(named.Outcome(), outcomeRetry)
	}
	return outcomeRetry
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
