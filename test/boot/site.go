//go:build linux

package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// Where the cluster is. The public addresses are set aside for documents.
const (
	siteAddress   = "192.0.2.1"
	endpointName  = "provisioner.example.org"
	wireguardPort = "51820"
	// APIServer is the API server's address, in the WireGuard network; its
	// certificate is for this address, too.
	APIServer = "10.99.0.1:6443"

	serverInterface = "server"
	serverNetwork   = "10.99.0.1/16"
)

// site is the cluster's side.
type site struct {
	machine  *machine.Machine
	relay    *machine.Relay
	programs programs
	server   keys.Server
}

// programs are folders and paths of what is run.
type programs struct {
	controlPlane string // folder of kubeadm, kubelet, fakecri
	wireguardGo  string
	joinScript   string
}

// tunnelEnv is what wg-quick needs. It must not hold WG_PROCESS_FOREGROUND: with
// an empty one wireguard-go starts itself for ever.
func (p programs) tunnelEnv() []string {
	return []string{"WG_QUICK_USERSPACE_IMPLEMENTATION=" + p.wireguardGo, "LOG_LEVEL=error"}
}

// openSite makes the cluster's side: apiServer and artifacts are host:port of the
// real ones.
func openSite(ctx context.Context, dir string, p programs, apiServer, artifacts string) (_ *site, err error) {
	s := &site{programs: p}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("the cluster's side: %w", err), s.stop())
		}
	}()
	server, private, err := keys.NewServer(siteAddress + ":" + wireguardPort)
	if err != nil {
		return nil, err
	}
	s.server = server
	if s.relay, err = machine.NewRelay(); err != nil {
		return nil, err
	}
	if s.machine, err = machine.Start(ctx, machine.Settings{Name: "cluster", Dir: dir}); err != nil {
		return nil, err
	}
	if err := s.serveWireGuard(ctx, private); err != nil {
		return nil, err
	}
	// The public address is there before any cable is.
	if _, err := output(ctx, s.machine, nil, "ip", "address", "add", siteAddress+"/32", "dev", "lo"); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, upstream, address, device string }{
		{"api", apiServer, APIServer, serverInterface}, // whoever comes by the cable is not let in
		{"artifacts", artifacts, siteAddress + ":443", ""},
	} {
		socket, err := s.relay.Add(f.name, f.upstream)
		if err != nil {
			return nil, err
		}
		if err := s.machine.Forward(ctx, machine.Forwarding{Address: f.address, Device: f.device, Socket: socket}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *site) serveWireGuard(ctx context.Context, private string) error {
	config := fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = %s\nListenPort = %s\n", private, serverNetwork, wireguardPort)
	path := filepath.Join("/run", serverInterface+".conf")
	if err := s.machine.Write(ctx, machine.File{Path: path, Data: []byte(config), Mode: 0o600}); err != nil {
		return err
	}
	if _, err := output(ctx, s.machine, nil, "ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	said, err := output(ctx, s.machine, s.programs.tunnelEnv(), "wg-quick", "up", path)
	if err != nil {
		if _, statErr := os.Stat("/dev/net/tun"); statErr != nil {
			err = errors.Join(err, statErr)
		}
		return fmt.Errorf("WireGuard server (is /dev/net/tun open to this user?): %w\n%s", err, said)
	}
	return nil
}

// addPeer lets the holder of a key in.
func (s *site) addPeer(ctx context.Context, k keys.Key) error {
	_, err := output(ctx, s.machine, nil, "wg", "set", serverInterface, "peer", k.PublicKey, "allowed-ips", k.Address+"/32")
	return err
}

func (s *site) removePeer(ctx context.Context, k keys.Key) error {
	_, err := output(ctx, s.machine, nil, "wg", "set", serverInterface, "peer", k.PublicKey, "remove")
	return err
}

func (s *site) stop() error {
	var err error
	if s.machine != nil {
		err = s.machine.Stop()
	}
	if s.relay != nil {
		s.relay.Stop()
	}
	return err
}

// output runs a command that must succeed.
func output(ctx context.Context, m *machine.Machine, env []string, args ...string) (string, error) {
	r, err := m.Run(ctx, machine.Command{Args: args, Env: env})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s ends with code %d: %s", args[0], r.Code, r.Output)
	}
	return string(r.Output), err
}
