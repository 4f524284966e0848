package httpserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// Simultaneous connections to the artifact port. An instance needs one; those
// behind one NAT gateway share an address.
const (
	maxConnections          = 1024
	maxConnectionsPerSource = 64
)

var errNoAddress = errors.New("no address to listen on")

// listen opens the port, so that an address in use is an error at start.
func listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, errNoAddress
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open port: %w", err)
	}
	return listener, nil
}

// cappedListener caps the connections that are open at the same time. Above the
// cap over all new ones wait with the kernel for their turn; above the cap of
// their source, which trusted proxies do not have, they are closed at once.
type cappedListener struct {
	net.Listener
	trusted networks
	log     *slog.Logger
	lines   *brake
	slots   chan struct{} // filled with the connections that are open
	closed  chan struct{}
	close   func()

	mu   sync.Mutex
	open map[netip.Addr]int // of each source
}

func capConnections(l net.Listener, trusted networks, log *slog.Logger) *cappedListener {
	closed := make(chan struct{})
	return &cappedListener{
		Listener: l, trusted: trusted, log: log, lines: newBrake(1),
		slots:  make(chan struct{}, maxConnections),
		closed: closed, close: sync.OnceFunc(func() { close(closed) }),
		open: make(map[netip.Addr]int),
	}
}

// Close closes the listener, whether Accept waits for it or for a connection to
// be closed.
func (l *cappedListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// Accept returns the next connection whose source may have one more.
func (l *cappedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		if release, ok := l.admit(hostOf(conn.RemoteAddr().String())); ok {
			return &countedConn{conn, sync.OnceFunc(release)}, nil
		}
		_ = conn.Close() // nothing was said on it
	}
}

// admit counts a connection, and returns what to do when it is closed.
func (l *cappedListener) admit(peer netip.Addr) (release func(), ok bool) {
	if l.trusted.contain(peer) {
		return func() { <-l.slots }, true
	}
	source := group(peer)
	if l.add(source) {
		return func() { l.remove(source); <-l.slots }, true
	}
	if held, ok := l.lines.pass(); ok {
		l.log.Warn("connections closed, their source has too many", "count", held+1, "source", peer)
	}
	return nil, false
}

func (l *cappedListener) add(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[source] >= maxConnectionsPerSource {
		return false
	}
	l.open[source]++
	return true
}

func (l *cappedListener) remove(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[source]--
	if l.open[source] == 0 {
		delete(l.open, source)
	}
}

// countedConn counts until it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close closes the connection. It may be called more than once.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite lets net/http say that no more comes before it closes: else an
// answer to a client that is still sending is lost.
func (c *countedConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}
