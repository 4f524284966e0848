package poller

import "errors"

// Result is what became of an event that needs nothing more, in the word that
// the metrics use.
type Result string

// The results of a Handler. It may return other words too.
const (
	Done    Result = "done"
	NotOurs Result = "not_ours" // matches no profile
	Gone    Result = "gone"     // the instance is no longer there to be given anything
	Ignored Result = "ignored"  // nothing is ever done for such an event
)

// The outcomes that the poller itself decides on.
const (
	outcomeRetry       = "retry"
	outcomeDuplicate   = "duplicate"   // settled by the pass of another message
	outcomeRedelivered = "redelivered" // received again while in hand
	outcomeCrowded     = "crowded"     // too many of its instance wait
	outcomeMalformed   = "malformed"   // a receive of a message that cannot be understood
	outcomeDiscarded   = "discarded"   // such a message, deleted in the end
)

func outcomeOf(result string, err error) string {
	if err == nil {
		return orElse(result, string(Done))
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
