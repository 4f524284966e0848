package nodecertificate

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// chance draws what a request is made of and remembers whether all was right.
type chance struct {
	*rand.Rand
	wrong int
}

// draw returns the first one most of the time: it is the right one.
func draw[T any](c *chance, right T, wrong ...T) T {
	if c.IntN(16) > 0 {
		return right
	}
	c.wrong++
	return wrong[c.IntN(len(wrong))]
}

// TestOnlyTheExactOneIsApproved draws every part of a request independently of
// the others. Only one whose parts are all right may be approved.
func TestOnlyTheExactOneIsApproved(t *testing.T) {
	t.Parallel()
	c := &chance{Rand: rand.New(rand.NewPCG(1, 2))}
	results := map[bool]int{}
	for range 3000 {
		c.wrong = 0
		r := randomClient(c)
		if c.IntN(2) == 0 {
			r = randomServing(c)
		}
		request := r.make(t, "csr-1")
		w := newWorld()
		w.server.put(request)
		if err := w.attempt(t.Context(), "csr-1"); err != nil {
			t.Fatal(err)
		}
		conditions := w.server.read("csr-1").Status.Conditions
		got := len(conditions) == 1 && conditions[0].Type == certificatesv1.CertificateApproved
		if want := c.wrong == 0; got != want {
			t.Errorf("approved %v with %d wrong: %+v\n%+v\n%s", got, c.wrong, conditions, r, request.Spec.Request)
		}
		results[got]++
	}
	if results[true] < 300 || results[false] < 300 {
		t.Errorf("one-sided: %v", results)
	}
}

// randomSubject makes the subject of a node, and what both kinds have in common.
func randomSubject(c *chance, r *recipe, node, other string) {
	r.x509.Subject = pkix.Name{
		CommonName:         draw(c, "system:node:"+node, "system:node:"+other, node, "system:node:", "", "system:admin"),
		Organization:       draw(c, []string{"system:nodes"}, nil, []string{"system:masters"}, []string{"system:nodes", "system:masters"}, []string{"system:nodes", "system:nodes"}),
		OrganizationalUnit: draw(c, nil, []string{"x"}),
		Locality:           draw(c, nil, []string{"y"}),
		ExtraNames:         draw(c, nil, []pkix.AttributeTypeAndValue{attribute(42, "z")}),
	}
	r.x509.EmailAddresses = draw(c, nil, []string{"a@b"})
	r.x509.URIs = draw(c, nil, []*url.URL{{Scheme: "https", Host: "h"}})
	r.x509.ExtraExtensions = draw(c, nil, []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0}}})
	r.encode = draw(c, toPEM,
		func(der []byte) []byte { return append(toPEM(der), toPEM(der)...) },
		func(der []byte) []byte { return append(toPEM(der), "x"...) },
		func(der []byte) []byte {
			der[len(der)-1] ^= 1
			return toPEM(der)
		})
	r.status.Certificate = draw(c, nil, []byte("x"))
	r.status.Conditions = draw(c, nil, []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed}})
}

// randomUsages mixes in key encipherment, which is right with or without.
func randomUsages(c *chance, purpose, other certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
	u := draw(c,
		[]certificatesv1.KeyUsage{"digital signature", purpose},
		[]certificatesv1.KeyUsage{"digital signature", other},
		[]certificatesv1.KeyUsage{"digital signature", purpose, other},
		[]certificatesv1.KeyUsage{purpose},
		[]certificatesv1.KeyUsage{"digital signature", purpose, "cert sign"})
	if c.IntN(2) == 0 {
		u = append(slices.Clone(u), certificatesv1.UsageKeyEncipherment)
	}
	c.Shuffle(len(u), func(i, j int) { u[i], u[j] = u[j], u[i] })
	return u
}

func randomClient(c *chance) *recipe {
	r := clientRecipe()
	token, node, other := tokenA, "node-a", "node-b"
	if c.IntN(2) == 0 {
		token, node, other = tokenB, "node-b", "node-a"
	}
	randomSubject(c, r, node, other)
	r.username = draw(c, "system:bootstrap:"+token, "system:bootstrap:cccccc", "system:bootstrap:", "system:node:"+node, "admin")
	r.groups = draw(c, r.groups, r.groups[:1], nil)
	r.signer = draw(c, r.signer, certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName)
	r.usages = randomUsages(c, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth)
	r.x509.DNSNames = draw(c, nil, []string{node})
	r.x509.IPAddresses = draw(c, nil, []net.IP{net.IPv4(10, 99, 0, 7)})
	return r
}

func randomServing(c *chance) *recipe {
	c.wrong = 0 // of a client's request that was not wanted
	r := servingRecipe()
	randomSubject(c, r, "node-a", "node-b")
	r.username = draw(c, r.username, "system:node:home", "system:node:node-b", "system:bootstrap:"+tokenA, "admin")
	r.groups = draw(c, r.groups, r.groups[1:], nil)
	r.signer = draw(c, r.signer, certificatesv1.KubeAPIServerClientKubeletSignerName, "example.com/kubelet-serving")
	r.usages = randomUsages(c, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth)
	names := slices.Concat(nodeA.DNSNames, []string{"node-a", "NODE-A", string(instanceA)})
	c.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+c.IntN(len(names))]
	r.x509.DNSNames = draw(c, names, []string{"node-b"}, append(names, "x"), []string{string(instanceB)})
	r.x509.IPAddresses = draw(c, r.x509.IPAddresses[:c.IntN(3)], []net.IP{net.IPv4(10, 99, 0, 8)}, append(r.x509.IPAddresses, net.IPv6loopback))
	return r
}
