//go:build linux

package boot

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
)

// Transfer is what `wg show` counts of one peer, in bytes.
type Transfer struct{ Received, Sent int }

// Tunnel is what the instance's own end says.
func (i *Instance) Tunnel(ctx context.Context) (Transfer, error) {
	return transfer(ctx, i.machine, Interface, i.site.server.PublicKey)
}

func transfer(ctx context.Context, m *machine.Machine, device, peer string) (t Transfer, err error) {
	said, err := output(ctx, m, nil, "wg", "show", device, "transfer")
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(said) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != peer {
			continue
		}
		if t.Received, err = strconv.Atoi(f[1]); err != nil {
			return t, err
		}
		t.Sent, err = strconv.Atoi(f[2])
		return t, err
	}
	return t, fmt.Errorf("the peer is not in %q", said)
}

// ReachesAPIServer reports whether the instance gets any answer from the API
// server's address: the health check's, which needs no rights.
func (i *Instance) ReachesAPIServer(ctx context.Context) (bool, error) {
	_, code, err := i.Run(ctx, "curl", "-q", "-s", "-k", "--noproxy", "*", "--connect-timeout", "2", "--max-time", "5",
		"https://"+APIServer+"/livez")
	return code == 0, err
}
