package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Client speaks HTTP/2 only, also where get asks for http.
func http2Client(t *testing.T, s *Server, config *tls.Config) *http.Client {
	return overHTTP2(t, config, func() (net.Conn, error) { return net.Dial("tcp", s.Addr().String()) })
}

func overHTTP2(t *testing.T, config *tls.Config, dial func() (net.Conn, error)) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true) // as net/http sees it; the dialer sees to TLS
	config.NextProtos = []string{"h2"}
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		encrypted := tls.Client(conn, config)
		return encrypted, encrypted.HandshakeContext(ctx)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// frameConn is an HTTP/2 connection of a client that sends what it likes.
type frameConn struct {
	*http2.Framer
	t    *testing.T
	done chan struct{} // closed when the server hangs up

	writing sync.Mutex
	mu      sync.Mutex
	seen    []string // the server's frames but SETTINGS and PING
	changed chan struct{}
}

// newFrameConn answers PING only if it is polite.
func newFrameConn(t *testing.T, conn net.Conn, polite bool) *frameConn {
	t.Helper()
	encrypted := tls.Client(conn, trusting("h2"))
	if err := encrypted.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &frameConn{t: t, Framer: http2.NewFramer(encrypted, encrypted), done: make(chan struct{}), changed: make(chan struct{}, 1)}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := encrypted.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.write(func() error { return c.WriteSettings() })
	go c.read(polite)
	return c
}

func (c *frameConn) read(polite bool) {
	defer close(c.done)
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if polite {
				c.write(func() error { return c.WritePing(true, f.Data) })
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.write(c.WriteSettingsAck)
			}
		case *http2.MetaHeadersFrame:
			c.note(fmt.Sprintf("HEADERS %d %s", f.StreamID, f.PseudoValue("status")))
		case *http2.DataFrame:
			c.note(fmt.Sprintf("DATA %d %s", f.StreamID, f.Data()))
		case *http2.RSTStreamFrame:
			c.note(fmt.Sprintf("RST_STREAM %d %v", f.StreamID, f.ErrCode))
		case *http2.GoAwayFrame:
			c.note(fmt.Sprintf("GOAWAY %v", f.ErrCode))
		}
	}
}

// write writes one frame, as the test and read do.
func (c *frameConn) write(frame func() error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = frame() // the server may have hung up, which is what a test waits for
}

// pause waits, but not for a server that has hung up.
func (c *frameConn) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.done:
	}
}

func (c *frameConn) note(frame string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, frame)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *frameConn) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.seen, "\n")
}

// await waits until the server has sent a frame or hung up.
func (c *frameConn) await(frame string) {
	c.t.Helper()
	for {
		c.mu.Lock()
		found := slices.ContainsFunc(c.seen, func(s string) bool { return strings.HasPrefix(s, frame) })
		c.mu.Unlock()
		if found {
			return
		}
		select {
		case <-c.changed:
		case <-c.done:
			if !strings.Contains(c.String(), frame) {
				c.t.Fatalf("want %s, got:\n%s", frame, c)
			}
		}
	}
}

// headerBlock encodes a GET request.
func headerBlock(path string, more ...hpack.HeaderField) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "test"}, {Name: ":path", Value: path},
	}, more...) {
		_ = encoder.WriteField(field) // a buffer takes everything
	}
	return block.Bytes()
}

// servePipesTLS is servePipes with a certificate.
func servePipesTLS(t *testing.T, a Artifacts, auth Authorizer, cfg ArtifactConfig) *pipeListener {
	t.Helper()
	cfg.CertFile, cfg.KeyFile = certificateFiles(t)
	return servePipes(t, a, auth, cfg)
}
