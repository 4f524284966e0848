package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

const (
	testID = instance.ID("i-0123456789abcdef0")
	secret = "kq4gihvszzgn1p0r"
	// testPatience is how long a test waits for what should come at once.
	testPatience = 20 * time.Second
)

// fixedArtifacts has artifacts for one instance.
type fixedArtifacts struct{}

func (fixedArtifacts) WireGuardConfig(_ context.Context, id instance.ID) ([]byte, error) {
	return forTestID(id, "PrivateKey = "+secret+"\n")
}

func (fixedArtifacts) Kubeconfig(_ context.Context, id instance.ID) ([]byte, error) {
	return forTestID(id, "kind: Config\n")
}

func (fixedArtifacts) JoinConfiguration(_ context.Context, id instance.ID) ([]byte, error) {
	return forTestID(id, "tlsBootstrapToken: 5emitj."+secret+"\n")
}

func forTestID(id instance.ID, content string) ([]byte, error) {
	if id != testID {
		return nil, fmt.Errorf("join configuration: %w", lifecycle.ErrNotAllocated)
	}
	return []byte(content), nil
}

// oneAnswer answers every request for an artifact by calling itself.
type oneAnswer func(context.Context) ([]byte, error)

func (f oneAnswer) WireGuardConfig(ctx context.Context, _ instance.ID) ([]byte, error) { return f(ctx) }
func (f oneAnswer) Kubeconfig(ctx context.Context, _ instance.ID) ([]byte, error)      { return f(ctx) }
func (f oneAnswer) JoinConfiguration(ctx context.Context, _ instance.ID) ([]byte, error) {
	return f(ctx)
}

func failing(err error) oneAnswer {
	return func(context.Context) ([]byte, error) { return nil, err }
}

// gated announces each request and holds it until it is released.
func gated(started chan<- struct{}, release <-chan struct{}) oneAnswer {
	return func(ctx context.Context) ([]byte, error) {
		started <- struct{}{}
		select {
		case <-release:
			return []byte("late\n"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// authorizerFunc asks itself.
type authorizerFunc func(*http.Request) error

func (f authorizerFunc) Authorize(r *http.Request, _ instance.ID) error { return f(r) }

// refusingWith lets nobody in.
func refusingWith(err error) Authorizer {
	return authorizerFunc(func(*http.Request) error { return err })
}

var (
	refusing      = refusingWith(errors.New("signed by a stranger"))
	noCredentials = refusingWith(fmt.Errorf("no document: %w", ErrNoCredentials))
	undecided     = refusingWith(fmt.Errorf("EC2 is away: %w", ErrUndecided))
	panicking     = authorizerFunc(func(*http.Request) error { panic("holding " + secret) })
)

// wordedError has a word for the metric.
type wordedError struct{ word string }

func (e wordedError) Error() string  { return "refused with a word" }
func (e wordedError) Reason() string { return e.word }

// logBuffer can be written and read at the same time.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

var (
	quiet    = slog.New(slog.DiscardHandler)
	noLimits = Limits{PerSource: -1, Total: -1}
)

// newTestHandler is for tests that need no server.
func newTestHandler(a Artifacts, auth Authorizer) *artifactHandler {
	return newArtifactHandler(a, auth, nil, ArtifactConfig{Logger: quiet, Limits: noLimits})
}

// withTestDefaults has a logger, and no limits unless the test is about them.
func withTestDefaults(cfg ArtifactConfig) ArtifactConfig {
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = noLimits
	}
	return cfg
}

// newTestServer opens a server of artifacts on a free port of loopback.
func newTestServer(t testing.TB, a Artifacts, auth Authorizer, cfg ArtifactConfig) *Server {
	t.Helper()
	cfg.Address = "127.0.0.1:0"
	s, err := NewArtifactServer(a, auth, withTestDefaults(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs s until the test ends or stop is called, which waits for its end.
func run(t testing.TB, s *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(testPatience):
			t.Error("Run does not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

// serve is newTestServer and run for the usual case.
func serve(t *testing.T, a Artifacts, auth Authorizer) *Server {
	t.Helper()
	s := newTestServer(t, a, auth, ArtifactConfig{})
	run(t, s)
	return s
}

// response is an answer read to its end.
type response struct {
	code   int
	header http.Header
	body   string
}

// send writes a request line and headers as they stand: no client library
// tidies them up.
func send(t *testing.T, s *Server, requestLine string, headers ...string) response {
	t.Helper()
	conn := dial(t, s)
	lines := append([]string{requestLine + " HTTP/1.1", "Host: test", "Connection: close"}, headers...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return receive(t, conn, requestLine)
}

// plainRequest is a request as it stands on the wire, which leaves the
// connection open.
func plainRequest(line string) string { return line + " HTTP/1.1\r\nHost: test\r\n\r\n" }

func receive(t *testing.T, conn net.Conn, requestLine string) response {
	t.Helper()
	method, _, _ := strings.Cut(requestLine, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80s: %v", requestLine, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.80s: %v", requestLine, err)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // may be closed already
	if err := conn.SetDeadline(time.Now().Add(testPatience)); err != nil {
		t.Fatal(err)
	}
	return conn
}
