package httpserver

import (
	"errors"
	"regexp"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// Words for why a caller was refused, beside those of the Authorizer's errors.
const (
	reasonNoCredentials = "no_credentials"
	reasonRateSource    = "rate_source"
	reasonRateTotal     = "rate_total"
	reasonClosed        = "closed"
	reasonOther         = "other"
)

// reasonPattern keeps out of the metric what somebody made up of an id or an
// error's text: each word is a time series.
var reasonPattern = regexp.MustCompile(`^[a-z_]{1,32}$`)

// reasonOf returns the word for an error.
func reasonOf(err error) string {
	var worded interface{ Reason() string }
	switch {
	case errors.Is(err, errRefused) && errors.Is(err, ErrNoCredentials):
		return reasonNoCredentials
	case errors.As(err, &worded):
		if word := worded.Reason(); reasonPattern.MatchString(word) {
			return word
		}
		return reasonOther
	case errors.Is(err, lifecycle.ErrClosed):
		return reasonClosed
	default:
		return reasonOther
	}
}
