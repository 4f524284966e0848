package httpserver

import (
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor walks through X-Forwarded-For from its end, where the nearest
// proxy wrote, to the first address that is not a trusted proxy's: what stands
// before it anybody may have written. An entry that is no address ends the walk
// too. It returns the last address that can be believed, which is peer if
// there is none in lines.
func (n networks) forwardedFor(lines []string, peer netip.Addr) netip.Addr {
	last := peer
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var entry string
			line, entry, more = cutLast(line)
			source, err := parseForwarded(entry)
			if err != nil {
				return last
			}
			last = source
			if !n.contain(source) {
				return last
			}
		}
	}
	return last
}

// cutLast cuts off what stands after the last comma, and reports whether there
// is one.
func cutLast(line string) (rest, entry string, more bool) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], line[i+1:], i >= 0
}

// parseForwarded returns the address in one entry, which may have a port, and
// brackets if it is an IPv6 address.
func parseForwarded(entry string) (netip.Addr, error) {
	entry = strings.Trim(entry, " \t")
	if source, err := netip.ParseAddr(entry); err == nil {
		return plain(source), nil
	}
	if strings.HasSuffix(entry, "]") {
		entry += ":0"
	}
	withPort, err := netip.ParseAddrPort(entry)
	return plain(withPort.Addr()), err
}
