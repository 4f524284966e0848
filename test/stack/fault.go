//go:build linux

package stack

import (
	"context"
	"errors"
)

// errNotOurs is for what a test may not do to a cluster that is not its own.
var errNotOurs = errors.New("the cluster is not the stack's own")

// StopAPIServer ends the API server, within two seconds; etcd and all that is
// stored stay.
func (s *Stack) StopAPIServer(context.Context) error {
	if !s.ownCluster() {
		return errNotOurs
	}
	return s.apiServer.stop()
}

// StartAPIServer starts the API server again, on the port it had, and returns
// once it is ready.
func (s *Stack) StartAPIServer(ctx context.Context) error {
	if !s.ownCluster() {
		return errNotOurs
	}
	return s.apiServer.start(ctx)
}
