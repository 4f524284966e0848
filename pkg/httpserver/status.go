package httpserver

import (
	"errors"
	"net/http"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// What can be wrong with a request itself.
var (
	errNoRoute = errors.New("no such artifact")
	errMethod  = errors.New("method not allowed")
	errRefused = errors.New("refused by the authorizer")
)

// Seconds after which an instance should ask again: soon while it waits for its
// key, less often while something is broken.
const (
	retryAllocated = "5"
	retryBroken    = "10"
)

// answer is all that a caller learns about an error.
type answer struct {
	code       int
	body       string
	retryAfter string // seconds; empty: no header
}

// answerTo turns an error into an answer. Nothing of the error's text is in
// it: tell the log, not the caller.
func answerTo(err error) answer {
	const notFound = "not found\n"
	switch {
	case errors.Is(err, errNoRoute):
		return answer{http.StatusNotFound, notFound, ""}
	case errors.Is(err, errMethod):
		return answer{http.StatusMethodNotAllowed, "method not allowed\n", ""}
	case errors.Is(err, errRefused):
		return answer{http.StatusForbidden, "forbidden\n", ""}
	case errors.Is(err, lifecycle.ErrNotAllocated):
		return answer{http.StatusNotFound, notFound, retryAllocated}
	default:
		return answer{http.StatusServiceUnavailable, "try again later\n", retryBroken}
	}
}
