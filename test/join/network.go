//go:build linux

package join

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
)

// network gives the node its address and a way to the API server. All addresses
// are on the loopback device: nothing else is in the namespace, so nothing is
// routed.
func (s spec) network() error {
	if err := bringUpLoopback(); err != nil {
		return fmt.Errorf("loopback device: %w", err)
	}
	alias := 0
	for _, a := range []string{s.NodeIP, s.ServerHost} {
		addr, err := netip.ParseAddr(a)
		if err != nil || addr.IsLoopback() {
			continue // no address, a name, or there already
		}
		alias++
		if err := addLoopbackAddress(alias, addr); err != nil {
			return fmt.Errorf("address %s: %w", addr, err)
		}
	}
	return s.listenForAPIServer()
}

// listenForAPIServer takes the place of the API server's address. A name leads
// to the loopback address, by /etc/hosts.
func (s spec) listenForAPIServer() error {
	host := s.ServerHost
	if net.ParseIP(host) == nil {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, s.ServerPort))
	if err != nil {
		return err
	}
	go machine.Forward(l, "unix", s.RelaySocket)
	return nil
}

func bringUpLoopback() error {
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return ioctl(unix.SIOCSIFFLAGS, ifr)
}

// addLoopbackAddress adds an IPv4 address as an alias, lo:1 and so on.
func addLoopbackAddress(alias int, addr netip.Addr) error {
	ifr, err := unix.NewIfreq(fmt.Sprintf("lo:%d", alias))
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(addr.AsSlice()); err != nil {
		return fmt.Errorf("only IPv4 addresses can be given to a node here: %w", err)
	}
	if err := ioctl(unix.SIOCSIFADDR, ifr); err != nil {
		return err
	}
	if err := ifr.SetInet4Addr([]byte{255, 255, 255, 255}); err != nil {
		return err
	}
	return ioctl(unix.SIOCSIFNETMASK, ifr)
}

func ioctl(request uint, ifr *unix.Ifreq) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.IoctlIfreq(fd, request, ifr)
}
