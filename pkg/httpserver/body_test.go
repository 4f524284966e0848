package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Nothing of a body is read, and the connection ends with the answer. On a pipe
// each byte that is sent is one that was read.
func TestBodiesAreNotRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, header string
		code           int
	}{
		"short":     {"GET", "Content-Length: 10", 200},
		"200 KiB":   {"GET", "Content-Length: 204800", 200},
		"1 GiB":     {"GET", "Content-Length: 1073741824", 200},
		"chunked":   {"GET", "Transfer-Encoding: chunked", 200},
		"continue":  {"GET", "Content-Length: 10\r\nExpect: 100-continue", 200},
		"HEAD":      {"HEAD", "Content-Length: 10", 200},
		"POST":      {"POST", "Content-Length: 204800", 405},
		"POST wait": {"POST", "Content-Length: 10\r\nExpect: 100-continue", 405},
		"chunks":    {"PUT", "Transfer-Encoding: chunked", 405},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, start := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{}), time.Now()
				conn := l.mustDial(t, "192.0.2.1:1")
				if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: test\r\n%s\r\n\r\n", tt.method, joinPath, tt.header); err != nil {
					t.Fatal(err)
				}
				reader := bufio.NewReader(conn)
				res, err := http.ReadResponse(reader, &http.Request{Method: tt.method})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }() // read to its end
				if res.StatusCode != tt.code || !res.Close {
					t.Errorf("got %s, the connection ends: %v", res.Status, res.Close)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Error(err)
				}
				if n, err := io.WriteString(conn, "5\r\naaaaa\r\n0\r\n\r\n"); n != 0 || err == nil {
					t.Errorf("%d bytes of the body were read, %v", n, err)
				}
				if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("after the answer: %v", err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("hung up after %v", took)
				}
			})
		})
	}
}

// Over HTTP/2 the stream is reset after its answer, and no new ones are taken.
func TestBodiesAreNotReadOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipesTLS(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		c := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), true)
		c.write(func() error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headerBlock(joinPath), EndHeaders: true})
		})
		c.await("RST_STREAM 1 NO_ERROR")
		c.await("GOAWAY NO_ERROR")
		c.write(func() error { return c.WriteData(1, true, make([]byte, 1<<10)) }) // under way already
		<-c.done
		c.await("HEADERS 1 200")
		c.await("DATA 1 tlsBootstrapToken")
	})
}

// A body that comes at once does not cost a client its answer.
func TestBodyBeforeAnswerOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		l := servePipesTLS(t, gated(started, release), AnyCaller(), ArtifactConfig{})
		c := newFrameConn(t, l.mustDial(t, "192.0.2.1:1"), true)
		c.write(func() error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headerBlock(joinPath), EndHeaders: true})
		})
		<-started
		c.write(func() error { return c.WriteData(1, false, make([]byte, 10<<10)) })
		synctest.Wait()
		close(release)
		c.await("DATA 1 late")
		c.await("GOAWAY NO_ERROR")
		<-c.done
	})
}

// Without a body a connection is kept.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{})
		conn := l.mustDial(t, "192.0.2.1:1")
		for _, method := range []string{"GET", "HEAD", "POST", "GET"} {
			if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", method, joinPath); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, conn, method); got.header.Get("Connection") != "" {
				t.Errorf("%s: Connection: %s", method, got.header.Get("Connection"))
			}
		}
	})
}
