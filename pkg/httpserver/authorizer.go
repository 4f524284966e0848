package httpserver

import (
	"errors"
	"net/http"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Authorizer decides whether a request may fetch an instance's artifacts. Nil
// means it may. The caller learns from an error only its kind: ErrNoCredentials
// is answered 401, ErrUndecided 503, which is to ask again, and any other 403.
//
// The error goes to the log, so it must not hold what the caller presented. If
// it, or one it wraps, has a method Reason() string, that word (up to 32
// characters a to z and _) is the reason in the log and the metric; there
// should be few of them.
//
// The request's context ends after ten seconds. SourceOf tells where the
// request comes from. The body is not to be read.
type Authorizer interface {
	Authorize(r *http.Request, id instance.ID) error
}

var (
	// ErrNoCredentials says that the caller presented nothing that could be
	// looked at.
	ErrNoCredentials = errors.New("no credentials were presented")
	// ErrUndecided says that it cannot be decided now, because something that
	// must be asked does not answer.
	ErrUndecided = errors.New("it cannot be decided now")
)

// AnyCaller returns an Authorizer that lets everyone in. It is for use behind
// another guard: whoever reaches the port and knows an instance id gets that
// instance's secrets.
func AnyCaller() Authorizer { return anyCaller{} }

type anyCaller struct{}

func (anyCaller) Authorize(*http.Request, instance.ID) error { return nil }
