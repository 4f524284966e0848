//go:build linux

package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which the kernel gives ports to
// outgoing connections, else one of those could hold the port of an API server
// that is stopped for a while.
const firstPort, lastPort = 20000, 32000

// reservedPort is a loopback port that no other stack of this machine chooses
// while it is reserved.
type reservedPort struct {
	number int
	claim  net.Listener
}

// reservePort finds a free port. An abstract unix socket named after the port
// is the claim: unlike a lock file it leaves nothing behind, however the
// process ends.
func reservePort() (reservedPort, error) {
	for range 200 {
		number := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // nothing secret about a port
		claim, err := net.Listen("unix", "@dynk8s-port-"+strconv.Itoa(number))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", loopback(number))
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = probe.Close()
		return reservedPort{number, claim}, nil
	}
	return reservedPort{}, errors.New("no free port on 127.0.0.1")
}

// reservePorts fills every pointer with a port and returns what gives them
// back.
func reservePorts(numbers ...*int) (release func(), err error) {
	var reserved []reservedPort
	release = func() {
		for _, p := range reserved {
			_ = p.claim.Close() // the process's end does the same
		}
	}
	for _, n := range numbers {
		p, err := reservePort()
		if err != nil {
			release()
			return nil, err
		}
		reserved = append(reserved, p)
		*n = p.number
	}
	return release, nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
