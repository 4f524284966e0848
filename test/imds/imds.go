// Package imds plays the instance metadata service of one EC2 instance, for
// tests: IMDSv2 with tokens, the instance's id and its signed identity document,
// wrapped as the real one wraps it. What the hop limit does is the network's
// affair and not played here.
package imds

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

// Mode says what the service does.
type Mode int

const (
	// V2 wants a token with every request, as with "IMDSv2 required".
	V2 Mode = iota
	// V1Only knows no tokens, as stand-ins and other clouds: a PUT is not found,
	// a GET answered without.
	V1Only
	// Disabled answers everything with 403, as when instance metadata is switched
	// off.
	Disabled
	// Down cuts every connection without an answer.
	Down
)

// The limits of a token's life, in seconds, and the headers around it:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
const (
	longestTTL  = 21600
	ttlHeader   = "X-aws-ec2-metadata-token-ttl-seconds"
	tokenHeader = "X-aws-ec2-metadata-token" //nolint:gosec // a header, no token
)

// Server is the service of one instance. It is an http.Handler.
type Server struct {
	id       instance.ID
	document func(context.Context) (string, error)

	mu     sync.Mutex
	mode   Mode
	tokens map[string]time.Time // and when they expire
}

// New returns the service of an instance. document returns the signed identity
// document on one line; it is asked each time.
func New(id instance.ID, document func(context.Context) (string, error)) *Server {
	return &Server{id: id, document: document, tokens: map[string]time.Time{}}
}

// Set changes what the service does.
func (s *Server) Set(m Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

func (s *Server) current() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch mode := s.current(); {
	case mode == Down:
		panic(http.ErrAbortHandler)
	case mode == Disabled:
		status(w, http.StatusForbidden)
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && mode == V2:
		s.giveToken(w, r)
	case r.Method == http.MethodPut:
		status(w, http.StatusNotFound)
	case r.Method != http.MethodGet:
		status(w, http.StatusMethodNotAllowed)
	case mode == V2 && !s.valid(r.Header.Get(tokenHeader)):
		status(w, http.StatusUnauthorized)
	default:
		s.get(w, r)
	}
}

func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Forwarded-For") != "" { // a proxy that strangers might use
		status(w, http.StatusForbidden)
		return
	}
	seconds, err := strconv.Atoi(r.Header.Get(ttlHeader))
	if err != nil || seconds < 1 || seconds > longestTTL {
		status(w, http.StatusBadRequest)
		return
	}
	token := rand.Text()
	s.mu.Lock()
	s.tokens[token] = time.Now().Add(time.Duration(seconds) * time.Second)
	s.mu.Unlock()
	w.Header().Set(ttlHeader, strconv.Itoa(seconds))
	answer(w, token)
}

func (s *Server) valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	expires, ok := s.tokens[token]
	return ok && time.Now().Before(expires)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/latest/meta-data/instance-id":
		answer(w, string(s.id))
	case "/latest/dynamic/instance-identity/rsa2048":
		document, err := s.document(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, instanceidentitytest.Wrap(document))
	default:
		status(w, http.StatusNotFound)
	}
}

// answer writes text as the real service does, without a line break at the end.
func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = fmt.Fprint(w, text) // a caller that has gone needs no answer
}

func status(w http.ResponseWriter, code int) { http.Error(w, http.StatusText(code), code) }
