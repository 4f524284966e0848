package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
)

// cut reports whether the server has hung up on a connection by now.
func cut(t *testing.T, conn net.Conn) bool {
	t.Helper()
	synctest.Wait()
	result := make(chan error, 1)
	go func() { _, err := conn.Read(make([]byte, 1)); result <- err }()
	synctest.Wait()
	select {
	case err := <-result:
		return errors.Is(err, io.EOF)
	default:
		return false
	}
}

func TestConnectionsOfOneSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged logBuffer
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{Logger: logged.logger(), TrustedProxies: prefixes("10.0.0.0/8")})
		var first net.Conn
		for i := range maxConnectionsPerSource {
			conn := l.mustDial(t, fmt.Sprintf("[2001:db8::%x]:1", i))
			if i == 0 {
				first = conn
			}
			if cut(t, conn) {
				t.Fatalf("connection %d is closed", i)
			}
		}
		for range 10 {
			if !cut(t, l.mustDial(t, "[2001:db8::ffff]:1")) {
				t.Error("one more is open")
			}
		}
		if cut(t, l.mustDial(t, "[2001:db8:0:1::]:1")) || cut(t, l.mustDial(t, "192.0.2.1:1")) {
			t.Error("another source is hung up on")
		}
		for range 2 * maxConnectionsPerSource {
			if cut(t, l.mustDial(t, "10.0.0.1:1")) {
				t.Fatal("a trusted proxy is hung up on")
			}
		}
		_ = first.Close()
		synctest.Wait()
		if cut(t, l.mustDial(t, "[2001:db8::ffff]:1")) {
			t.Error("no place for another after one was closed")
		}
		if n := strings.Count(logged.String(), `level=WARN msg="connections closed, their source has too many" count=1 source=2001:db8::ffff`); n != 1 {
			t.Errorf("%d warnings:\n%s", n, &logged)
		}
	})
}

// Above the cap over all new connections wait.
func TestConnectionsOverAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		var first net.Conn
		for i := range maxConnections {
			conn := l.mustDial(t, fmt.Sprintf("192.0.2.%d:1", i%250))
			if i == 0 {
				first = conn
			}
		}
		waiting := make(chan net.Conn)
		go func() {
			conn, err := l.dial("198.51.100.1:1")
			if err != nil {
				t.Error(err)
			}
			waiting <- conn
		}()
		synctest.Wait()
		select {
		case <-waiting:
			t.Fatal("one more is open")
		default:
		}
		_ = first.Close()
		conn := <-waiting
		if _, err := io.WriteString(conn, plainRequest("GET "+joinPath)); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, conn, "GET "+joinPath); got.code != 200 {
			t.Errorf("after its turn: %d", got.code)
		}
		_ = conn.Close()
	})
}

func TestListenerCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipeListener()
		l := capConnections(pipes, nil, quiet)
		for range 3 {
			go func() { _, _ = pipes.dial("192.0.2.1:1") }()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if len(l.slots) != 1 || len(l.open) != 1 {
				t.Errorf("one connection counts as %d, %v", len(l.slots), l.open)
			}
			_, _ = conn.Close(), conn.Close() // net/http does, too
			if len(l.slots) != 0 || len(l.open) != 0 {
				t.Errorf("no connection counts as %d, %v", len(l.slots), l.open)
			}
		}
		_ = pipes.Close()
		if _, err := l.Accept(); err == nil || len(l.slots) != 0 {
			t.Errorf("a connection that fails: %v, counts as %d", err, len(l.slots))
		}
		for range maxConnections {
			l.slots <- struct{}{}
		}
		ended := make(chan error, 1)
		go func() { _, err := l.Accept(); ended <- err }()
		synctest.Wait()
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
