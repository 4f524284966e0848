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

// maxHeaderBytes leaves room for a signed identity document in a header. net/http
// lets one be 4 KiB longer over HTTP/1.1.
const maxHeaderBytes = 16 << 10

// http2Limits are for clients that fetch a few small answers and send nothing
// but headers. net/http itself closes connections that do not say what they
// want within idleTimeout.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 16,
		MaxReadFrameSize:     16 << 10, // the least there is
		// What a client may send of bodies, which nobody reads.
		MaxReceiveBufferPerConnection: 64 << 10, // the least there is
		MaxReceiveBufferPerStream:     16 << 10,
		// A connection on which nothing arrives is asked whether it still lives. In
		// the middle of its headers a client cannot answer: this ends slow ones.
		SendPingTimeout:  10 * time.Second,
		PingTimeout:      5 * time.Second,
		WriteByteTimeout: 10 * time.Second,
	}
}

// Server is a listener that is open and the handler that will serve it.
type Server struct {
	listener net.Listener
	http     *http.Server
	shutdown time.Duration
	log      *slog.Logger
}

// serverConfig is what servers differ in.
type serverConfig struct {
	listener net.Listener
	handler  http.Handler
	tls      *tls.Config   // nil: plain HTTP
	shutdown time.Duration // for requests under way
	log      *slog.Logger
}

func newServer(cfg serverConfig) *Server {
	return &Server{
		listener: cfg.listener,
		shutdown: cfg.shutdown,
		log:      cfg.log,
		http: &http.Server{
			Handler:           cfg.handler,
			TLSConfig:         cfg.tls,
			Protocols:         protocols(cfg.tls != nil),
			HTTP2:             http2Limits(),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          newErrorLog(cfg.log),
			// "OPTIONS *" gets the same answers as everything else.
			DisableGeneralOptionsHandler: true,
		},
	}
}

// protocols leaves out HTTP/2 without TLS, which nobody needs.
func protocols(overTLS bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(overTLS)
	return p
}

// Addr is the address the server listens on, with the port it was given when
// it asked for port 0.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close closes the listener of a server that will not be run after all.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx is done, then lets requests under way finish: artifacts
// for at most ten seconds, operations for two. It returns nil when it stopped
// because of ctx. A Server runs once.
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
