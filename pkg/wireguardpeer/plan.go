package wireguardpeer

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxCount bounds one run; a Secret of each goes through somebody's hands.
const maxCount = 10000

// Plan says what keys are to be made.
type Plan struct {
	// Count is how many, and First the number of the first one, from 1.
	Count, First int
	// NamePrefix begins the names of the key Secrets; the number follows.
	NamePrefix string
	// Namespace of the Secrets; empty leaves it to whoever applies them.
	Namespace string
	// Network is the VPN's.
	Network netip.Prefix
	// ServerAddress is the server's in the network, which no peer gets. The zero
	// Addr means the first that a host may have.
	ServerAddress netip.Addr
	// Start is the address of the key number First. The zero Addr means that key
	// number 1 has the first free address, number 2 the next, and so on.
	Start netip.Addr
	// Endpoint is host:port of the VPN server.
	Endpoint string
	// ServerPublicKey is the server's, base64.
	ServerPublicKey string
	// AllowedIPs are the networks behind the server. None means the Network.
	AllowedIPs []netip.Prefix
	// DNS are servers' addresses and search domains, as wg-quick takes them.
	DNS []string
	// Keepalive is in seconds and MTU in bytes; zero leaves the line out.
	Keepalive, MTU int
	// Preshared gives each peer a preshared key, too.
	Preshared bool
}

// withDefaults fills in what may be left out.
func (p Plan) withDefaults() Plan {
	if !p.ServerAddress.IsValid() {
		p.ServerAddress = firstHost(p.Network)
	}
	if len(p.AllowedIPs) == 0 {
		p.AllowedIPs = []netip.Prefix{p.Network}
	}
	return p
}

func (p Plan) validate() error {
	for _, check := range []func() error{p.validateNumbers, p.validateNames, p.validateNetwork, p.validateServer, p.validateDNS} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) validateNumbers() error {
	switch {
	case p.Count < 1 || p.Count > maxCount:
		return fmt.Errorf("count %d: want 1 to %d", p.Count, maxCount)
	case p.First < 1 || p.First > 1<<24:
		return fmt.Errorf("first %d: want 1 to %d", p.First, 1<<24)
	case p.Keepalive < 0 || p.Keepalive > 65535:
		return fmt.Errorf("keepalive %d: want 0 (none) to 65535 seconds", p.Keepalive)
	case p.MTU != 0 && (p.MTU < 1280 || p.MTU > 65535):
		return fmt.Errorf("MTU %d: want 0 (wg-quick's choice) or 1280 to 65535", p.MTU)
	}
	return nil
}

func (p Plan) validateNames() error {
	if last := p.NamePrefix[max(0, len(p.NamePrefix)-1):]; last >= "0" && last <= "9" {
		return fmt.Errorf("name prefix %q ends with a digit: its names would be mixed up with those of other prefixes", p.NamePrefix)
	}
	if problems := validation.IsDNS1123Subdomain(p.name(p.First + p.Count - 1)); len(problems) > 0 {
		return fmt.Errorf("name prefix %.64q makes no name of a Secret: %s", p.NamePrefix, problems[0])
	}
	if p.Namespace != "" && len(validation.IsDNS1123Label(p.Namespace)) > 0 {
		return fmt.Errorf("%.64q is no name of a namespace", p.Namespace)
	}
	return nil
}

// name is the name of the Secret of a key.
func (p Plan) name(number int) string { return fmt.Sprintf("%s%02d", p.NamePrefix, number) }

func (p Plan) validateNetwork() error {
	n := p.Network
	switch {
	case !n.IsValid():
		return errors.New("no network is given")
	case n != n.Masked():
		return fmt.Errorf("network %s has host bits set: write %s", n, n.Masked())
	case n.Addr().Is4In6():
		return fmt.Errorf("network %s is an IPv4 network in IPv6 form", n)
	case n.Addr().IsMulticast() || n.Addr().IsLoopback() || n.Addr().IsLinkLocalUnicast() || n.Addr().IsUnspecified():
		return fmt.Errorf("network %s holds no addresses that a kubelet can use", n)
	case !n.Contains(p.ServerAddress):
		return fmt.Errorf("server address %s is not in network %s", p.ServerAddress, n)
	case p.Start.IsValid() && !n.Contains(p.Start):
		return fmt.Errorf("start %s is not in network %s", p.Start, n)
	}
	return nil
}

func (p Plan) validateServer() error {
	if err := validateEndpoint(p.Endpoint); err != nil {
		return err
	}
	if _, err := parseKey(p.ServerPublicKey); err != nil {
		return fmt.Errorf("server public key: %w", err)
	}
	for _, allowed := range p.AllowedIPs {
		if allowed != allowed.Masked() {
			return fmt.Errorf("allowed network %s has host bits set: write %s", allowed, allowed.Masked())
		}
	}
	return nil
}

func validateEndpoint(endpoint string) error {
	name, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return fmt.Errorf("endpoint %.64q: want HOST:PORT, an IPv6 address in brackets", endpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("endpoint %.64q: %.16q is no port", endpoint, port)
	}
	if _, err := netip.ParseAddr(name); err != nil && len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
		return fmt.Errorf("endpoint %.64q: %.64q is no address and no name of a host", endpoint, name)
	}
	return nil
}

var dnsEntry = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

func (p Plan) validateDNS() error {
	for _, entry := range p.DNS {
		if _, err := netip.ParseAddr(entry); err != nil && !dnsEntry.MatchString(entry) {
			return fmt.Errorf("DNS %.64q is no address and no domain", entry)
		}
	}
	return nil
}

// addresses returns those of the peers, in order.
func (p Plan) addresses() ([]netip.Addr, error) {
	skip, next := p.First-1, firstHost(p.Network)
	if p.Start.IsValid() {
		skip, next = 0, p.Start
	}
	var list []netip.Addr
	for ; len(list) < p.Count; next = next.Next() {
		if !next.IsValid() || !p.Network.Contains(next) {
			return nil, fmt.Errorf("network %s is too small: it has no address for key number %d", p.Network, p.First+len(list))
		}
		if !p.free(next) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		list = append(list, next)
	}
	return list, nil
}

// free reports whether a peer may have the address.
func (p Plan) free(a netip.Addr) bool {
	point := p.Network.Addr().BitLen()-p.Network.Bits() <= 1 // RFC 3021 and RFC 6164
	return a != p.ServerAddress && (point || a != p.Network.Addr()) && (point || !a.Is4() || a != lastOf(p.Network))
}

// firstHost is the first address of a network that a host may have: the one after
// the network's own, which in IPv6 is that of the routers.
func firstHost(n netip.Prefix) netip.Addr {
	if !n.IsValid() || n.Addr().BitLen()-n.Bits() <= 1 {
		return n.Addr()
	}
	return n.Addr().Next()
}

// lastOf is the last address of a network, in IPv4 its broadcast address.
func lastOf(n netip.Prefix) netip.Addr {
	number := new(big.Int).SetBytes(n.Addr().AsSlice())
	size := new(big.Int).Lsh(big.NewInt(1), uint(n.Addr().BitLen()-n.Bits()))
	number.Add(number, size).Sub(number, big.NewInt(1))
	bytes := number.FillBytes(make([]byte, n.Addr().BitLen()/8))
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
