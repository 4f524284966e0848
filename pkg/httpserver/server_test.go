package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// short is a time-out that a test waits for.
const short = 50 * time.Millisecond

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, fixedArtifacts{}, AnyCaller())
	if got := send(t, s, "GET "+joinPath, "X-Document: "+strings.Repeat("a", 12<<10)); got.code != 200 {
		t.Errorf("12 KiB: %d", got.code)
	}
	if got := send(t, s, "GET "+joinPath, "X-Document: "+strings.Repeat("a", 24<<10)); got.code != 431 {
		t.Errorf("24 KiB: %d", got.code)
	}
	if got := send(t, s, "GET /"+strings.Repeat("a", 24<<10)); got.code != 431 {
		t.Errorf("path of 24 KiB: %d", got.code)
	}
}

// Of headers of 1 MiB no more than the limit and a buffer is read.
func TestHugeHeader(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"GET " + joinPath + " HTTP/1.1\r\nHost: test\r\nAuthorization: ", "GET /", "", "GET " + joinPath + " HTTP/1.1\r\n: "} {
		synctest.Test(t, func(t *testing.T) {
			conn := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{}).mustDial(t, "192.0.2.1:1")
			answer := make(chan []byte, 1)
			go func() { all, _ := io.ReadAll(conn); answer <- all }()
			n, err := io.WriteString(conn, head+strings.Repeat("a", 1<<20)+"\r\n\r\n")
			if err == nil || n > maxHeaderBytes+8<<10 {
				t.Errorf("%d bytes were read, %v", n, err)
			}
			if got := string(<-answer); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
				t.Errorf("%.40q: %q", head, got)
			}
		})
	}
}

// A client that does not finish its headers is hung up on.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
	s.http.ReadHeaderTimeout = short
	run(t, s)
	conn := dial(t, s)
	if _, err := io.WriteString(conn, "GET "+joinPath+" HTTP/1.1\r\nHost: te"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); isTimeout(err) || bytes.Contains(answer, []byte(secret)) {
		t.Errorf("not hung up on: %q, %v", answer, err)
	}
}

// A client that keeps its connection without using it is hung up on.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
	s.http.IdleTimeout = short
	run(t, s)
	conn := dial(t, s)
	if _, err := io.WriteString(conn, "GET "+joinPath+" HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !bytes.Contains(answer, []byte("200 OK")) {
		t.Errorf("got %q, %v", answer, err)
	}
}

// A client that does not read its answer is hung up on.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const size = 32 << 20 // more than the kernel buffers
	big := oneAnswer(func(context.Context) ([]byte, error) { return make([]byte, size), nil })
	var logged logBuffer
	s := newTestServer(t, big, AnyCaller(), ArtifactConfig{Logger: logged.logger()})
	s.http.WriteTimeout = short
	stop := run(t, s)
	conn := dial(t, s)
	if _, err := io.WriteString(conn, "GET "+joinPath+" HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// The access log line comes when the handler has given up.
	for end := time.Now().Add(testPatience); !strings.Contains(logged.String(), "artifact request"); {
		if time.Now().After(end) {
			t.Fatal("the server still waits for its client")
		}
		time.Sleep(time.Millisecond)
	}
	if n, err := io.Copy(io.Discard, conn); n >= size || isTimeout(err) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	stop()
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	s := newTestServer(t, gated(started, release), AnyCaller(), ArtifactConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	answers := make(chan response, 1)
	go func() { answers <- send(t, s, "GET "+joinPath) }()
	<-started
	cancel()
	waitRefused(t, s)
	select {
	case err := <-done:
		t.Fatalf("stopped with a request under way: %v", err)
	default:
	}
	close(release)
	if got := <-answers; got.code != 200 || got.body != "late\n" {
		t.Errorf("got %d %q", got.code, got.body)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// waitRefused waits until nobody can connect any more.
func waitRefused(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(testPatience); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return
		}
		_ = conn.Close() // it was only to see whether it can be made
		if time.Now().After(end) {
			t.Fatal("connections are still taken")
		}
	}
}

func TestShutdownCutsOffWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	var logged logBuffer
	s := newTestServer(t, gated(started, nil), AnyCaller(), ArtifactConfig{Logger: logged.logger()})
	s.shutdown = short
	stop := run(t, s)
	conn := dial(t, s)
	if _, err := io.WriteString(conn, "GET "+joinPath+" HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-started
	stop()
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("got %q", answer)
	}
	if !strings.Contains(logged.String(), "cut off") {
		t.Errorf("logged %s", &logged)
	}
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("context done before: %v", err)
	}
	waitRefused(t, s)
	s = newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listener closed: %v", err)
	}
}

func TestErrorLogLevels(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	l := newErrorLog(logged.logger())
	l.Print("http: TLS handshake error from 192.0.2.1:1: EOF\n")
	l.Print("http: Accept error: too many open files\n")
	for _, want := range []string{`level=DEBUG msg="http server" err="http: TLS`, `level=WARN msg="http server" err="http: Accept`} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("logged %s, want %s", &logged, want)
		}
	}
}
