package nodecertificate

import (
	"encoding/asn1"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// checkNames wants subject alternative names, and all of them the subject's.
func checkNames(request certificateRequest, s Subject) error {
	if len(request.EmailAddresses)+len(request.URIs) > 0 {
		return Refusal("request has an e-mail address or a URI as a subject alternative name")
	}
	if len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return Refusal("request has no DNS name or IP address as a subject alternative name")
	}
	for _, name := range request.DNSNames {
		if !s.mayBeCalled(name) {
			return refusef("request has the DNS name %s, which is not the node's", quote(name))
		}
	}
	for _, ip := range request.IPAddresses {
		if !s.hasAddress(ip) {
			return refusef("request has the IP address %s, which is not the node's", ip)
		}
	}
	return checkNothingElse(request)
}

// checkNothingElse wants no extension but the subject alternative names, and in
// it none of a kind that package x509 passes over.
func checkNothingElse(request certificateRequest) error {
	if request.attributes != 1 || len(request.Extensions) != 1 || !request.Extensions[0].Id.Equal(oidSubjectAlternativeName) {
		return Refusal("request has more extensions or attributes than its subject alternative names")
	}
	var names []asn1.RawValue
	rest, err := asn1.Unmarshal(request.Extensions[0].Value, &names)
	if err != nil || len(rest) > 0 || len(names) != len(request.DNSNames)+len(request.IPAddresses) {
		return Refusal("request has a subject alternative name that is neither a DNS name nor an IP address")
	}
	return nil
}

func (s Subject) mayBeCalled(name string) bool {
	same := func(other string) bool { return other != "" && strings.EqualFold(other, name) }
	return same(s.NodeName) || same(string(s.InstanceID)) || slices.ContainsFunc(s.DNSNames, same)
}

func (s Subject) hasAddress(ip net.IP) bool {
	address, ok := netip.AddrFromSlice(ip)
	return ok && slices.ContainsFunc(s.Addresses, func(other netip.Addr) bool { return other.Unmap() == address.Unmap() })
}
