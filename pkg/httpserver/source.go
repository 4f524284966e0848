package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
)

type sourceKey struct{}

// SourceOf returns the address that a request comes from: that of the peer or,
// behind a trusted proxy, the one the proxy names. It has no zone, and an IPv4
// address is in its own form. For requests that did not pass the artifact server
// it is the peer's; it is the zero Addr if RemoteAddr is no address and port.
func SourceOf(r *http.Request) netip.Addr {
	if source, ok := r.Context().Value(sourceKey{}).(netip.Addr); ok {
		return source
	}
	return hostOf(r.RemoteAddr)
}

// withSource returns r with what SourceOf is to return.
func withSource(r *http.Request, source netip.Addr) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), sourceKey{}, source))
}

// hostOf returns the address in "address:port", or the zero Addr.
func hostOf(addressPort string) netip.Addr {
	parsed, err := netip.ParseAddrPort(addressPort)
	if err != nil {
		return netip.Addr{}
	}
	return plain(parsed.Addr())
}

func plain(a netip.Addr) netip.Addr { return a.WithZone("").Unmap() }

// ipv6Source is how much of an IPv6 address tells one source from another:
// whoever has one address has the whole /64, as a rule.
const ipv6Source = 64

// group returns what sources that share their limits have in common.
func group(source netip.Addr) netip.Addr {
	if !source.Is6() {
		return source
	}
	prefix, err := source.Prefix(ipv6Source)
	if err != nil { // never: 64 bits are in range
		return source
	}
	return prefix.Addr()
}

// networks are where proxies are that may say for whom they ask.
type networks []netip.Prefix

var errNoNetwork = errors.New("no valid network")

// newNetworks brings IPv4 networks into their own form, as plain does for
// addresses.
func newNetworks(prefixes []netip.Prefix) (networks, error) {
	const mapped = 96 // bits before the IPv4 address in an IPv4-mapped one
	n := make(networks, len(prefixes))
	for i, p := range prefixes {
		if !p.IsValid() {
			return nil, fmt.Errorf("trusted proxies: entry %d: %w", i, errNoNetwork)
		}
		if p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		n[i] = p
	}
	return n, nil
}

func (n networks) contain(a netip.Addr) bool {
	for _, p := range n {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// source returns where a request comes from. X-Forwarded-For is looked at only
// if the peer is trusted: anybody can send one.
func (n networks) source(r *http.Request) netip.Addr {
	peer := hostOf(r.RemoteAddr)
	if !n.contain(peer) {
		return peer
	}
	return n.forwardedFor(r.Header.Values("X-Forwarded-For"), peer)
}
