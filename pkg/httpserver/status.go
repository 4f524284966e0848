package httpserver

import (
	"errors"
	"net/http"
	"strconv"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// What can be wrong with a request itself.
var (
	errNoRoute = errors.New("no such artifact")
	errMethod  = errors.New("method not allowed")
	errRefused = errors.New("not let in by the authorizer")
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

var (
	notFound  = answer{http.StatusNotFound, "not found\n", ""}
	forbidden = answer{http.StatusForbidden, "forbidden\n", ""}
	broken    = answer{http.StatusServiceUnavailable, "try again later\n", retryBroken}
)

// answerTo turns an error into an answer. Nothing of the error's text is in
// it: tell the log, not the caller.
func answerTo(err error) answer {
	var tooMany *tooManyRequests
	switch {
	case errors.As(err, &tooMany):
		return answer{http.StatusTooManyRequests, "too many requests\n", strconv.Itoa(tooMany.seconds)}
	case errors.Is(err, errNoRoute):
		return notFound
	case errors.Is(err, errMethod):
		return answer{http.StatusMethodNotAllowed, "method not allowed\n", ""}
	case errors.Is(err, errRefused):
		return answerToRefusal(err)
	case errors.Is(err, lifecycle.ErrClosed):
		return forbidden
	case errors.Is(err, lifecycle.ErrNotAllocated):
		return answer{notFound.code, notFound.body, retryAllocated}
	default:
		return broken
	}
}

// answerToRefusal is for errors of the Authorizer, whatever else they wrap:
// what is not its own word for something else is a no.
func answerToRefusal(err error) answer {
	switch {
	case errors.Is(err, ErrNoCredentials):
		return answer{http.StatusUnauthorized, "unauthorized\n", ""}
	case errors.Is(err, ErrUndecided):
		return broken
	default:
		return forbidden
	}
}
