package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func handshake(t *testing.T, conn net.Conn, protocols ...string) *tls.Conn {
	t.Helper()
	encrypted := tls.Client(conn, trusting(protocols...))
	if err := encrypted.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return encrypted
}

// Headers of 1 MiB are cut off, however they are packed.
func TestHTTP2HeaderLimit(t *testing.T) {
	t.Parallel()
	const fragment = 16 << 10
	long := hpack.HeaderField{Name: "authorization", Value: strings.Repeat("~", 1<<20)}
	many := make([]hpack.HeaderField, 1<<10)
	for i := range many {
		many[i] = hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: strings.Repeat("~", 1<<10)}
	}
	// Each is one byte on the wire, from the decoder's table.
	bomb := []hpack.HeaderField{}
	for range 1 << 10 {
		bomb = append(bomb, hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("~", 3<<10)})
	}
	tests := map[string]struct {
		fields []hpack.HeaderField
		want   string
	}{
		"one long": {[]hpack.HeaderField{long}, "GOAWAY"},
		"many":     {many, "GOAWAY"},
		"bomb":     {bomb, "HEADERS 1 431"},
		"24 KiB":   {many[:24], "GOAWAY"},
		"17 KiB":   {many[:16], "HEADERS 1 431"},
		"12 KiB":   {many[:11], "DATA 1 tlsBootstrapToken"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
				c := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), true)
				synctest.Wait() // no other frame may stand between those of a block
				block := headerBlock(joinPath, tt.fields...)
				c.write(func() error {
					first := block[:min(len(block), fragment)]
					block = block[len(first):]
					return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndHeaders: len(block) == 0, EndStream: true})
				})
				for len(block) > 0 {
					next := block[:min(len(block), fragment)]
					block = block[len(next):]
					c.write(func() error { return c.WriteContinuation(1, len(block) == 0, next) })
				}
				c.await(tt.want)
				if served := strings.Contains(c.String(), secret); served != strings.HasPrefix(tt.want, "DATA") {
					t.Errorf("got:\n%s", c)
				}
			})
		})
	}
}

func TestHTTP2UnknownPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		c := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), true)
		for i, path := range append(unknownPaths, "*", "/kubeadm/join/i-0123456789ABCDEF0") {
			id := uint32(2*i + 1)
			c.write(func() error {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headerBlock(path), EndHeaders: true, EndStream: true})
			})
			c.await(fmt.Sprintf("HEADERS %d 404", id))
		}
		if strings.Contains(c.String(), secret) {
			t.Errorf("got:\n%s", c)
		}
	})
}

// A client gets sixteen streams at a time, those above are refused.
func TestHTTP2Streams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 100)
		l := servePipesTLS(t, gated(started, nil), AnyCaller(), ArtifactConfig{})
		c := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), true)
		synctest.Wait() // the client has acknowledged the SETTINGS
		for i := range 20 {
			c.write(func() error {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: headerBlock(joinPath), EndHeaders: true, EndStream: true})
			})
		}
		c.await("RST_STREAM 39 PROTOCOL_ERROR")
		synctest.Wait() // the others are under way
		if n := strings.Count(c.String(), "RST_STREAM"); n != 4 || len(started) != 16 {
			t.Errorf("%d requests under way, %d refused", len(started), n)
		}
		c.await("HEADERS 1 503") // our own time-out
	})
}

func TestHTTP2Shutdown(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	certFile, keyFile := certificateFiles(t)
	s := newTestServer(t, gated(started, release), AnyCaller(), ArtifactConfig{CertFile: certFile, KeyFile: keyFile})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	client := http2Client(t, s, trusting())
	answers := make(chan response, 1)
	go func() { answers <- get(t, client, joinPath) }()
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

// Requests over one HTTP/2 connection have the same limits as others.
func TestHTTP2FloodFromOneSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{Limits: defaultLimits})
		client := func(from string) func() response {
			c := overHTTP2(t, trusting(), func() (net.Conn, error) { return l.dial(from) })
			return func() response { return get(t, c, joinPath) }
		}
		flooder, other := client("192.0.2.1:1"), client("198.51.100.1:1")
		var wg sync.WaitGroup
		codes := make(chan int, 400)
		for range 4 {
			wg.Go(func() {
				for range 100 {
					codes <- flooder().code
				}
			})
		}
		wg.Wait()
		close(codes)
		count := map[int]int{}
		for code := range codes {
			count[code]++
		}
		if count[200] != 60 || count[429] != 340 {
			t.Errorf("got %v", count)
		}
		checkTooMany(t, flooder(), "1")
		if got := other(); got.code != 200 {
			t.Errorf("another address gets %d", got.code)
		}
	})
}

// Without TLS there is no HTTP/2, by whichever way it is asked for.
func TestNoPlainHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		conn := l.mustDial(t, "192.0.2.1:1")
		go func() { _, _ = conn.Write([]byte(http2.ClientPreface)) }()
		if got := receive(t, conn, "PRI *"); got.code < 400 {
			t.Errorf("got %d %q", got.code, got.body)
		}
		got := get(t, l.client(t, "192.0.2.1:1"), joinPath, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__")
		if got.code != 200 || got.header.Get("Upgrade") != "" {
			t.Errorf("got %d %v", got.code, got.header)
		}
	})
}

func TestHTTP2LimitsAreValid(t *testing.T) {
	t.Parallel()
	l := http2Limits()
	if l.MaxConcurrentStreams > 32 || l.MaxReceiveBufferPerStream < 1 || l.MaxReceiveBufferPerStream > 64<<10 || l.MaxReadFrameSize < 16<<10 || l.MaxReceiveBufferPerConnection < 64<<10 {
		t.Errorf("net/http would use its defaults, or too much: %+v", l)
	}
	if l.SendPingTimeout <= 0 || l.SendPingTimeout+l.PingTimeout > idleTimeout || l.WriteByteTimeout <= 0 || l.WriteByteTimeout > writeTimeout {
		t.Errorf("time-outs: %v, %v, %v", l.SendPingTimeout, l.PingTimeout, l.WriteByteTimeout)
	}
}
