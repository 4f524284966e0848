package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// pipeListener takes connections without a network: in a bubble of
// testing/synctest, from whatever address, and a byte is read when the server
// reads it and not before.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipeListener() *pipeListener {
	closed := make(chan struct{})
	return &pipeListener{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns when the server has taken the connection.
func (l *pipeListener) dial(from string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- pipeConn{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// mustDial is for connections that last until the test ends at most.
func (l *pipeListener) mustDial(t *testing.T, from string) net.Conn {
	t.Helper()
	conn, err := l.dial(from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // may be closed already
	return conn
}

// client makes its requests from an address.
func (l *pipeListener) client(t *testing.T, from string) *http.Client {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(from) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// pipeConn is a pipe that comes from an address.
type pipeConn struct {
	net.Conn
	remote net.Addr
}

func (c pipeConn) RemoteAddr() net.Addr { return c.remote }

// servePipes runs a server of artifacts on pipes until the test ends.
func servePipes(t *testing.T, a Artifacts, auth Authorizer, cfg ArtifactConfig) *pipeListener {
	t.Helper()
	l := newPipeListener()
	open := func(string) (net.Listener, error) { return l, nil }
	s, err := newArtifactServer(a, auth, withTestDefaults(cfg), open)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return l
}

// get fetches a path and returns the whole answer.
func get(t *testing.T, client *http.Client, path string, headers ...string) response {
	t.Helper()
	return do(t, client, "GET", path, headers...)
}

// do takes headers as names and values in turn.
func do(t *testing.T, client *http.Client, method, path string, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://test"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		t.Errorf("%s %.60s: %v", method, path, err)
		return response{}
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s %.60s: %v", method, path, err)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

// hungUpAfter waits until the server hangs up, and returns how long it took.
func hungUpAfter(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
		t.Errorf("got %q, %v", answer, err)
	}
	return time.Since(start)
}
