package artifact

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// asciiSpace is what wg-quick trims, the CR of a CRLF line end among it.
const asciiSpace = " \t\r\n\v\f"

var errNoAddress = errors.New("wireguard config: [Interface] has no Address that a kubelet can use")

// interfaceAddress returns the first Address in the [Interface] sections of a
// wg-quick configuration that the kubelet accepts as node-ip. It reads lines
// the way wg-quick does: keys in any case, # begins a comment, addresses
// separated by commas or spaces. Errors quote nothing of the configuration,
// because what stands in the wrong place may be the private key.
func interfaceAddress(config []byte) (netip.Addr, error) {
	inInterface, number := false, 0
	for line := range strings.Lines(string(config)) {
		number++
		key, value := splitLine(line)
		if strings.HasPrefix(key, "[") {
			inInterface = strings.EqualFold(key, "[Interface]")
			continue
		}
		if !inInterface || !strings.EqualFold(key, "Address") {
			continue
		}
		addr, err := firstUsable(value)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("wireguard config: line %d: %w", number, err)
		}
		if addr.IsValid() {
			return addr, nil
		}
	}
	return netip.Addr{}, errNoAddress
}

// splitLine returns the key and the value of a line without its comment. A
// line without "=" is all key.
func splitLine(line string) (key, value string) {
	line, _, _ = strings.Cut(line, "#")
	key, value, _ = strings.Cut(line, "=")
	return strings.Trim(key, asciiSpace), strings.Trim(value, asciiSpace)
}

var errBadAddress = errors.New("an Address is no IP address, with or without prefix length")

// firstUsable returns the zero Addr when value holds no usable address.
func firstUsable(value string) (netip.Addr, error) {
	separator := func(r rune) bool { return r == ',' || strings.ContainsRune(asciiSpace, r) }
	for field := range strings.FieldsFuncSeq(value, separator) {
		addr, ok := parseAddress(field)
		if !ok {
			return netip.Addr{}, errBadAddress
		}
		if usableNodeIP(addr) {
			return addr, nil
		}
	}
	return netip.Addr{}, nil
}

func parseAddress(s string) (netip.Addr, bool) {
	if strings.Contains(s, "/") {
		prefix, err := netip.ParsePrefix(s)
		return prefix.Addr().Unmap(), err == nil
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap(), err == nil && addr.Zone() == ""
}

// usableNodeIP is what the kubelet asks of its --node-ip.
func usableNodeIP(addr netip.Addr) bool {
	return !addr.IsUnspecified() && !addr.IsLoopback() && !addr.IsMulticast() && !addr.IsLinkLocalUnicast()
}
