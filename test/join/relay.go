//go:build linux

package join

import (
	"io"
	"net"
	"os"
	"path/filepath"
)

// upstreamRelay is the outer half of the way to the API server: a unix socket,
// which unlike a TCP port is seen from another network namespace.
type upstreamRelay struct {
	dir      string
	listener net.Listener
}

func startUpstreamRelay(upstream string) (*upstreamRelay, error) {
	// Not in the node's folder: a socket's path may have 107 bytes only.
	dir, err := os.MkdirTemp("", "dynk8s-")
	if err != nil {
		return nil, err
	}
	r := &upstreamRelay{dir: dir}
	if r.listener, err = net.Listen("unix", r.socket()); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	go forward(r.listener, "tcp", upstream)
	return r, nil
}

func (r *upstreamRelay) socket() string { return filepath.Join(r.dir, "api") }

func (r *upstreamRelay) stop() {
	_ = r.listener.Close()
	_ = os.RemoveAll(r.dir)
}

// forward joins every connection that l accepts with a new one to the address,
// until l is closed.
func forward(l net.Listener, network, address string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = in.Close() }()
			out, err := net.Dial(network, address)
			if err != nil {
				return // the caller sees a closed connection, as from a server that is down
			}
			defer func() { _ = out.Close() }()
			splice(in, out)
		}()
	}
}

// splice copies both ways until one side ends: TLS needs no half-closed
// connections.
func splice(a, b net.Conn) {
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
}
