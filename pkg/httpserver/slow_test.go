package httpserver

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// drip sends a byte now and then until the server hangs up, and returns how long
// that took.
func drip(t *testing.T, conn net.Conn, bytes string) time.Duration {
	t.Helper()
	start := time.Now()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for i := 0; ; i = (i + 1) % len(bytes) {
		if _, err := conn.Write([]byte{bytes[i]}); err != nil {
			return time.Since(start)
		}
		if time.Since(start) > time.Hour {
			t.Fatal("not hung up on")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A client that sends its headers a byte at a time is hung up on in time, however
// many bytes it has.
func TestSlowHeadersOverHTTP1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		if took := drip(t, l.mustDial(t, "192.0.2.1:1"), "GET / HTTP/1.1\r\nHost: test\r\n"+strings.Repeat("A: b\r\n", 1000)); took > readHeaderTimeout+100*time.Millisecond {
			t.Errorf("hung up on after %v", took)
		}
		if took := hungUpAfter(t, l.mustDial(t, "192.0.2.1:1")); took > readHeaderTimeout {
			t.Errorf("silent: hung up on after %v", took)
		}
	})
}

func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		// A record of a ClientHello that never ends.
		if took := drip(t, l.mustDial(t, "192.0.2.1:1"), "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"+strings.Repeat("a", 1000)); took > readHeaderTimeout+100*time.Millisecond {
			t.Errorf("hung up on after %v", took)
		}
	})
}

// What a client does on an HTTP/2 connection after its SETTINGS, and within what
// time it is hung up on.
func TestSlowHTTP2(t *testing.T) {
	t.Parallel()
	const goAway = time.Second // net/http gives clients that long to read it
	limits := http2Limits()
	block := headerBlock(joinPath)
	tests := map[string]struct {
		polite bool // answers PING
		do     func(*frameConn)
		within time.Duration
	}{
		"nothing": {true, func(*frameConn) {}, idleTimeout + goAway},
		"deaf":    {false, func(*frameConn) {}, limits.SendPingTimeout + limits.PingTimeout},
		"half a header block": {false, func(c *frameConn) {
			c.write(func() error { return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:5]}) })
		}, limits.SendPingTimeout + limits.PingTimeout},
		"headers a byte at a time": {false, func(c *frameConn) {
			c.write(func() error { return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1]}) })
			for _, b := range block[1 : len(block)-1] {
				c.pause(time.Second)
				c.write(func() error { return c.WriteContinuation(1, false, []byte{b}) })
			}
		}, limits.SendPingTimeout + limits.PingTimeout},
		"pings": {true, func(c *frameConn) {
			for range 100 {
				c.pause(time.Second)
				c.write(func() error { return c.WritePing(false, [8]byte{1}) })
			}
		}, idleTimeout + goAway},
		"one request": {true, func(c *frameConn) {
			c.write(func() error {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
			})
			c.await("HEADERS 1 200")
		}, idleTimeout + goAway},
		"an answer that is not read": {true, func(c *frameConn) {
			c.write(func() error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) })
			c.write(func() error {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
			})
			c.await("RST_STREAM 1 INTERNAL_ERROR")
		}, writeTimeout + idleTimeout + goAway},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
				c, start := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), tt.polite), time.Now()
				go tt.do(c)
				<-c.done
				if took := time.Since(start); took > tt.within {
					t.Errorf("hung up on after %v:\n%s", took, c)
				}
			})
		})
	}
}

// A client that starts no HTTP/2 after it has agreed on it.
func TestNoPreface(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		conn := handshake(t, l.mustDial(t, "192.0.2.1:1"), "h2")
		start, done := time.Now(), make(chan struct{})
		go func() { defer close(done); _, _ = conn.Read(make([]byte, 1<<10)); _, _ = conn.Read(make([]byte, 1)) }()
		<-done
		if took := time.Since(start); took > 10*time.Second { // net/http's own time-out
			t.Errorf("hung up on after %v", took)
		}
	})
}
