package nodecertificate

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// deviation is one thing that is wrong with a request, for which it is denied
// with a reason that has the text in it.
type deviation struct {
	name   string
	change func(*recipe)
	reason string
}

var (
	subjectDeviations = []deviation{
		{"another node's name", commonName("system:node:node-b"), `common name "system:node:node-b", want "system:node:node-a"`},
		{"the instance id for a name", commonName("system:node:" + string(instanceA)), "common name"},
		{"name in another letter case", commonName("system:node:NODE-A"), "common name"},
		{"name with more behind", commonName("system:node:node-a "), "common name"},
		{"no node", commonName("system:node:"), "common name"},
		{"not of a node", commonName("node-a"), "common name"},
		{"no common name", commonName(""), "common name none"},
		{"a long common name", commonName(strings.Repeat("ä\n", 1000)), `\n...", want`},
		{"two common names", raw(attribute(3, "system:node:node-a"), attribute(3, "system:node:node-b"), attribute(10, "system:nodes")), "common name"},
		{"the same common name twice", raw(attribute(3, "system:node:node-a"), attribute(3, "system:node:node-a"), attribute(10, "system:nodes")), "common name"},
		{"common name that is a number", raw(attribute(3, 5), attribute(10, "system:nodes")), "common name"},
		{"no organization", organizations(), "organization none"},
		{"another organization", organizations("system:masters"), `organization "system:masters", want "system:nodes"`},
		{"another organization beside", organizations("system:nodes", "system:masters"), "organization"},
		{"another organization before", organizations("system:masters", "system:nodes"), "organization"},
		{"the organization twice", raw(attribute(10, "system:nodes"), attribute(10, "system:nodes"), attribute(3, "system:node:node-a")), "organization"},
		{"many organizations", organizations("a", "b", "c", "d", "e", "f"), `"d", and 2 more`},
		{"organizational unit", func(r *recipe) { r.x509.Subject.OrganizationalUnit = []string{"system:masters"} }, `attribute "2.5.4.11"`},
		{"country", func(r *recipe) { r.x509.Subject.Country = []string{"DE"} }, `attribute "2.5.4.6"`},
		{"serial number", func(r *recipe) { r.x509.Subject.SerialNumber = "1" }, `attribute "2.5.4.5"`},
		{"user id", func(r *recipe) {
			r.x509.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "root"}}
		}, "attribute"},
		{"no subject", func(r *recipe) { r.x509.Subject = pkix.Name{} }, "common name none"},
		{"both in one", rawSets(pkix.RelativeDistinguishedNameSET{attribute(3, "system:node:node-a"), attribute(10, "system:nodes")}), "1 relative distinguished names"},
		{"an empty one", rawSets(
			pkix.RelativeDistinguishedNameSET{attribute(10, "system:nodes")}, pkix.RelativeDistinguishedNameSET{},
			pkix.RelativeDistinguishedNameSET{attribute(3, "system:node:node-a")}), "3 relative distinguished names"},
	}
	encodingDeviations = []deviation{
		{"two blocks", encoding(func(der []byte) []byte { return slices.Concat(toPEM(der), toPEM(der)) }), "one PEM block"},
		{"a broken block before", encoding(func(der []byte) []byte {
			return slices.Concat(bytes.Replace(toPEM(der), []byte("\nMI"), []byte("\n!!"), 1), toPEM(der))
		}), "one PEM block"},
		{"bytes behind", encoding(func(der []byte) []byte { return append(toPEM(der), 'x') }), "one PEM block"},
		{"bytes before", encoding(func(der []byte) []byte { return append([]byte("x\n"), toPEM(der)...) }), "one PEM block"},
		{"bytes behind in the block", encoding(func(der []byte) []byte { return toPEM(append(der, 0)) }), "trailing data"},
		{"a private key", encoding(func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}) }), "CERTIFICATE REQUEST"},
		{"a header", encoding(func(der []byte) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der, Headers: map[string]string{"a": "b"}})
		}), "headers"},
		{"no PEM", encoding(slices.Clone[[]byte]), "one PEM block"},
		{"nothing", encoding(func([]byte) []byte { return nil }), "one PEM block"},
		{"empty block", encoding(func([]byte) []byte { return toPEM(nil) }), "cannot be parsed"},
		{"not DER", encoding(func([]byte) []byte { return toPEM([]byte("hello")) }), "cannot be parsed"},
		{"long", encoding(func(der []byte) []byte { return append(toPEM(der), bytes.Repeat([]byte("\n"), maxRequest)...) }), "bytes, at most 8192 are allowed"},
		{"broken signature", encoding(func(der []byte) []byte {
			der[len(der)-1] ^= 1
			return toPEM(der)
		}), "signature"},
		{"signed for another name", func(r *recipe) {
			commonName("system:node:node-b")(r)
			r.encode = func(der []byte) []byte {
				return toPEM(bytes.Replace(der, []byte("system:node:node-b"), []byte("system:node:node-a"), 1))
			}
		}, "signature"},
	}
	usageDeviations = []deviation{
		{"no usages", usages(), "usages are none"},
		{"both purposes", usages("digital signature", "client auth", "server auth"), "usages"},
		{"no purpose", usages("digital signature", "key encipherment"), `usages are "digital signature", "key encipherment"`},
		{"no digital signature", usages("key encipherment", "client auth", "server auth"), "usages"},
		{"may sign certificates", func(r *recipe) { r.usages = append(r.usages, certificatesv1.UsageCertSign) }, "usages"},
		{"any usage", func(r *recipe) { r.usages = append(r.usages, certificatesv1.UsageAny) }, "usages"},
	}
	clientDeviations = []deviation{
		{"server auth", usages("digital signature", "server auth"), `want "digital signature" and "client auth"`},
		{"another's token", username("system:bootstrap:" + tokenB), `want "system:node:node-b"`},
		{"unknown token", username("system:bootstrap:cccccc"), "token cccccc was made for no instance"},
		{"no token id", username("system:bootstrap:"), "no bootstrap token id"},
		{"odd token id", username("system:bootstrap:../../x"), "no bootstrap token id"},
		{"DNS name", func(r *recipe) { r.x509.DNSNames = []string{"node-a"} }, "alternative names"},
		{"IP address", func(r *recipe) { r.x509.IPAddresses = []net.IP{net.IPv4(10, 99, 0, 7)} }, "alternative names"},
		{"e-mail address", func(r *recipe) { r.x509.EmailAddresses = []string{"a@b"} }, "alternative names"},
		{"URI", func(r *recipe) { r.x509.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, "alternative names"},
		{"name of another kind", extension(oidSubjectAlternativeName, alternativeNames(tagOther, "x")), `extension "2.5.29.17"`},
		{"CA", extension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 3, 1, 1, 0xff}), `extension "2.5.29.19"`},
		{"challenge password", challengePassword, "attributes"},
		{"attribute that cannot be read", unreadableAttribute, "attributes"},
	}
	servingDeviations = []deviation{
		{"client auth", usages("digital signature", "client auth"), `want "digital signature" and "server auth"`},
		{"no names", func(r *recipe) { r.x509.DNSNames, r.x509.IPAddresses = nil, nil }, "no DNS name or IP address"},
		{"another node's DNS name", dnsNames("node-a", "node-b"), `DNS name "node-b"`},
		{"another instance's id", dnsNames(string(instanceB)), "DNS name"},
		{"the API server's name", dnsNames("kubernetes.default.svc"), "DNS name"},
		{"wildcard", dnsNames("*"), "DNS name"},
		{"a name below", dnsNames("x.node-a"), "DNS name"},
		{"a name with a dot behind", dnsNames("node-a."), "DNS name"},
		{"empty DNS name", dnsNames(""), "DNS name"},
		{"another address", func(r *recipe) { r.x509.IPAddresses = append(r.x509.IPAddresses, net.IPv4(10, 99, 0, 8)) }, "IP address 10.99.0.8"},
		{"another IPv6 address", func(r *recipe) { r.x509.IPAddresses = []net.IP{net.ParseIP("fd00::8")} }, "IP address fd00::8"},
		{"no address", func(r *recipe) { r.x509.IPAddresses = []net.IP{net.IPv4zero} }, "IP address 0.0.0.0"},
		{"e-mail address", func(r *recipe) { r.x509.EmailAddresses = []string{"a@b"} }, "e-mail"},
		{"URI", func(r *recipe) { r.x509.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, "URI"},
		{"name of another kind", extension(oidSubjectAlternativeName, alternativeNames(tagDNS, "node-a", tagOther, "x")), "neither a DNS name nor an IP address"},
		{"bytes behind the names", extension(oidSubjectAlternativeName, append(alternativeNames(tagDNS, "node-a"), 0)), "neither a DNS name nor an IP address"},
		{"CA", extension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 3, 1, 1, 0xff}), "more extensions"},
		{"challenge password", challengePassword, "more extensions or attributes"},
	}
)

// deviations returns those of a client's request and of a serving one's.
func deviations() (ofClient, ofServing []deviation) {
	shared := slices.Concat(subjectDeviations, encodingDeviations, usageDeviations)
	return slices.Concat(shared, clientDeviations), slices.Concat(shared, servingDeviations)
}

func username(name string) func(*recipe) { return func(r *recipe) { r.username = name } }
func commonName(name string) func(*recipe) {
	return func(r *recipe) { r.x509.Subject.CommonName = name }
}
func dnsNames(names ...string) func(*recipe) {
	return func(r *recipe) { r.x509.DNSNames = names }
}
func organizations(names ...string) func(*recipe) {
	return func(r *recipe) { r.x509.Subject.Organization = names }
}
func usages(u ...certificatesv1.KeyUsage) func(*recipe) { return func(r *recipe) { r.usages = u } }
func encoding(f func([]byte) []byte) func(*recipe)      { return func(r *recipe) { r.encode = f } }

func attribute(n int, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, n}, Value: value}
}

func raw(attributes ...pkix.AttributeTypeAndValue) func(*recipe) {
	var sets pkix.RDNSequence
	for _, a := range attributes {
		sets = append(sets, pkix.RelativeDistinguishedNameSET{a})
	}
	return rawSets(sets...)
}

func rawSets(sets ...pkix.RelativeDistinguishedNameSET) func(*recipe) {
	return func(r *recipe) { r.x509.RawSubject = mustMarshal(pkix.RDNSequence(sets)) }
}

func extension(id asn1.ObjectIdentifier, value []byte) func(*recipe) {
	return func(r *recipe) {
		r.x509.ExtraExtensions = append(r.x509.ExtraExtensions, pkix.Extension{Id: id, Value: value})
	}
}

// Tags of an alternative name: a DNS name, and another kind.
const (
	tagDNS   = 2
	tagOther = 0
)

// alternativeNames takes pairs of tag and value.
func alternativeNames(pairs ...any) []byte {
	var names []asn1.RawValue
	for n := 0; n < len(pairs); n += 2 {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: pairs[n].(int), Bytes: []byte(pairs[n+1].(string))})
	}
	return mustMarshal(names)
}

func mustMarshal(value any) []byte {
	der, err := asn1.Marshal(value)
	if err != nil {
		panic(err)
	}
	return der
}
