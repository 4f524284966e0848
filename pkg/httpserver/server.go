package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Time-outs of a connection. Answers are a few kilobytes, so a client that
// needs longer is broken or means harm.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 20 * time.Second
	idleTimeout       = 30 * time.Second
	// handlerTimeout ends well before writeTimeout, so that a slow API server
	// becomes an answer and not a cut connection.
	handlerTimeout = 10 * time.Second
	// artifactShutdown and operationsShutdown are what requests under way get when
	// a server stops. The operations port stops last, when little is left of the
	// time that a pod is given.
	artifactShutdown   = 10 * time.Second
	operationsShutdown = 2 * time.Second
)

// maxHeaderBytes leaves room for a signed identity document in a header.
const maxHeaderBytes = 16 << 10

// Server is a listener that is open and the handler that will serve it.
type Server struct {
	listener net.Listener
	http     *http.Server
	shutdown time.Duration
	log      *slog.Logger
}

var errNoAddress = errors.New("no address to listen on")

// newServer opens the listener, so that an address in use is an error at start.
// tlsConfig may be nil for plain HTTP.
func newServer(address string, handler http.Handler, tlsConfig *tls.Config, shutdown time.Duration, log *slog.Logger) (*Server, error) {
	if address == "" {
		return nil, errNoAddress
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open port: %w", err)
	}
	// Few small answers need no HTTP/2, and less of it faces the internet.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Server{
		listener: listener,
		shutdown: shutdown,
		log:      log,
		http: &http.Server{
			Handler:           handler,
			TLSConfig:         tlsConfig,
			Protocols:         protocols,
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          newErrorLog(log),
			// "OPTIONS *" gets the same answers as everything else.
			DisableGeneralOptionsHandler: true,
		},
	}, nil
}

// Addr is the address the server listens on, with the port it was given when
// it asked for port 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close closes the listener of a server that will not be run after all.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx is done, then lets requests under way finish: artifacts
// for at most ten seconds, operations for two. It returns nil when it stopped because of ctx. A Server runs
// once.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	// The time to finish begins when ctx has ended already.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.shutdown)
	defer cancel()
	if err := s.http.Shutdown(finish); err != nil {
		s.log.Warn("requests were cut off at shutdown", "address", s.Addr().String(), "err", err)
		_ = s.http.Close() // the connections are cut; there is nothing left to save
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		// Too late to matter: it was to stop anyway.
		s.log.Warn("server failed while it stopped", "address", s.Addr().String(), "err", err)
	}
	return nil
}

func (s *Server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}
