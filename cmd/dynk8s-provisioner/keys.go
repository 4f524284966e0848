package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"dynk8s.du5t1n.me/provisioner/pkg/wireguardpeer"
)

func newKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make WireGuard keys for the pool",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysGenerateCommand())
	return cmd
}

// keysGenerate is what the flags say.
type keysGenerate struct {
	plan                          wireguardpeer.Plan
	network, serverAddress, start string
	allowed                       []string
	secrets, peers                string
	terminal                      bool
}

func newKeysGenerateCommand() *cobra.Command {
	var k keysGenerate
	cmd := &cobra.Command{
		Use:   "generate --count N --network CIDR --endpoint HOST:PORT --server-public-key KEY",
		Short: "Make key Secrets and the VPN server's peer sections",
		Long: `Makes WireGuard keys, each with an address of the network, and writes the key
Secrets for the cluster and the [Peer] sections for the VPN server, each to its
file. Without --secrets the Secrets go to the standard output, and without --peers
the sections follow them as comments, so that all of it can be piped to kubectl.

Nobody is contacted and nothing is remembered. Key number N has the Nth address
of the network, without the network's own, the broadcast and the server's
address: to make more later, say --first with the number after the last one.`,
		Example: `  dynk8s-provisioner keys generate --count 20 --network 10.99.0.0/24 \
    --endpoint vpn.example.org:51820 --server-public-key "$(wg show wg0 public-key)" \
    --allowed-ips 10.99.0.0/24,192.168.1.0/24 --namespace dynk8s --secrets keys.yaml --peers peers.conf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return k.run(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.IntVar(&k.plan.Count, "count", 0, "how many keys")
	f.IntVar(&k.plan.First, "first", 1, "number of the first key")
	f.StringVar(&k.plan.NamePrefix, "name-prefix", "wireguard-key-", "what the names of the Secrets begin with; the number follows")
	f.StringVar(&k.plan.Namespace, "namespace", "", "namespace of the Secrets (default: none is written)")
	f.StringVar(&k.network, "network", "", "the VPN's network, IPv4 or IPv6")
	f.StringVar(&k.serverAddress, "server-address", "", "the server's address in the network (default: the first)")
	f.StringVar(&k.start, "start", "", "address of the first key (default: by its number)")
	f.StringVar(&k.plan.Endpoint, "endpoint", "", "host:port of the VPN server")
	f.StringVar(&k.plan.ServerPublicKey, "server-public-key", "", "the server's public key, base64")
	f.StringSliceVar(&k.allowed, "allowed-ips", nil, "networks behind the server (default: the VPN's)")
	f.StringSliceVar(&k.plan.DNS, "dns", nil, "DNS servers and search domains")
	f.IntVar(&k.plan.Keepalive, "keepalive", 25, "seconds between keepalives; 0 for none")
	// An instance's own MTU is 9001, of which wg-quick would make 8921; the internet
	// carries 1500.
	f.IntVar(&k.plan.MTU, "mtu", 1420, "MTU of the interface; 0 leaves it to wg-quick, which takes too much in EC2")
	f.BoolVar(&k.plan.Preshared, "preshared", false, "give each peer a preshared key, too")
	f.StringVar(&k.secrets, "secrets", "", "file for the key Secrets (default: the standard output)")
	f.StringVar(&k.peers, "peers", "", "file for the server's peer sections (default: the standard output)")
	f.BoolVar(&k.terminal, "to-terminal", false, "print private keys even on a terminal")
	for _, name := range []string{"count", "network", "endpoint", "server-public-key"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
	return cmd
}

func (k keysGenerate) run(out io.Writer) error {
	plan, err := k.parse()
	if err != nil {
		return err
	}
	if secret := k.secrets == "" || (k.peers == "" && plan.Preshared); secret && !k.terminal && isTerminal(out) {
		return errors.New("the standard output is a terminal: name files with --secrets and --peers, or say --to-terminal")
	}
	peers, err := wireguardpeer.Generate(plan)
	if err != nil {
		return err
	}
	secrets, err := wireguardpeer.Secrets(peers)
	if err != nil {
		return err
	}
	return k.write(out, secrets, wireguardpeer.ServerSections(peers))
}

// parse reads the flags that hold addresses.
func (k keysGenerate) parse() (wireguardpeer.Plan, error) {
	plan := k.plan
	var err error
	if plan.Network, err = netip.ParsePrefix(k.network); err != nil {
		return plan, fmt.Errorf("--network %.64q is no network: want the form 10.99.0.0/24", k.network)
	}
	for _, a := range []struct {
		flag, text string
		to         *netip.Addr
	}{{"server-address", k.serverAddress, &plan.ServerAddress}, {"start", k.start, &plan.Start}} {
		if a.text == "" {
			continue
		}
		if *a.to, err = netip.ParseAddr(a.text); err != nil {
			return plan, fmt.Errorf("--%s %.64q is no IP address", a.flag, a.text)
		}
	}
	for _, text := range k.allowed {
		allowed, err := netip.ParsePrefix(text)
		if err != nil {
			return plan, fmt.Errorf("--allowed-ips %.64q is no network", text)
		}
		plan.AllowedIPs = append(plan.AllowedIPs, allowed)
	}
	return plan, nil
}

// write puts both where they belong. Files are written together or not at all,
// as the one is worth nothing without the other.
func (k keysGenerate) write(out io.Writer, secrets, sections []byte) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}()
	var text []byte
	for _, part := range []struct {
		file    string
		content []byte
		print   func([]byte) []byte
	}{{k.secrets, secrets, nil}, {k.peers, sections, k.commented}} {
		if part.file == "" {
			if part.print != nil {
				part.content = part.print(part.content)
			}
			text = append(text, part.content...)
			continue
		}
		created, err := writeNew(part.file, part.content)
		if created {
			made = append(made, part.file)
		}
		if err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

// commented makes comments of the peer sections when they follow YAML.
func (k keysGenerate) commented(sections []byte) []byte {
	if k.secrets != "" {
		return sections
	}
	commented := []byte("---\n# Peer sections for the VPN server's configuration:\n")
	for line := range bytes.Lines(sections) {
		commented = append(append(commented, "# "...), line...)
	}
	return commented
}

// writeNew writes a file for its owner only. A file that is there stays: it may
// hold the only copy of other keys.
func writeNew(name string, content []byte) (created bool, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the operator names the file
	if errors.Is(err, os.ErrExist) {
		return false, fmt.Errorf("%s is there already, perhaps with keys in use: name another file", name)
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return true, errors.Join(err, f.Close())
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
