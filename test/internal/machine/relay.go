//go:build linux

package machine

import (
	"io"
	"net"
	"os"
	"path/filepath"
)

// Relay leads from unix sockets, which unlike TCP ports are seen from another
// network namespace, to TCP addresses of this one.
type Relay struct {
	dir       string
	listeners []net.Listener
}

// NewRelay returns a relay that leads nowhere yet.
func NewRelay() (*Relay, error) {
	// Not in a machine's folder: a socket's path may have 107 bytes only.
	dir, err := os.MkdirTemp("", "dynk8s-")
	if err != nil {
		return nil, err
	}
	return &Relay{dir: dir}, nil
}

// Add makes a socket that leads to a TCP address and returns its path.
func (r *Relay) Add(name, upstream string) (socket string, err error) {
	l, err := r.listen(name)
	if err != nil {
		return "", err
	}
	go Forward(l, "tcp", upstream)
	return l.Addr().String(), nil
}

func (r *Relay) listen(name string) (net.Listener, error) {
	l, err := net.Listen("unix", filepath.Join(r.dir, name))
	if err != nil {
		return nil, err
	}
	r.listeners = append(r.listeners, l)
	return l, nil
}

// Stop takes the sockets away.
func (r *Relay) Stop() {
	for _, l := range r.listeners {
		_ = l.Close()
	}
	_ = os.RemoveAll(r.dir)
}

// Forward joins every connection that l accepts with a new one to the address,
// until l is closed.
func Forward(l net.Listener, network, address string) {
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
