package nodecertificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// FuzzCheck gives any bytes for a request of node-a. The fuzzer knows exact
// requests and may change them, but has no key to sign what it changes.
func FuzzCheck(f *testing.F) {
	ofClient, ofServing := deviations()
	for _, seed := range []struct {
		recipe     func() *recipe
		deviations []deviation
		serving    bool
	}{{clientRecipe, ofClient, false}, {servingRecipe, ofServing, true}} {
		f.Add(seed.recipe().make(f, "x").Spec.Request, seed.serving)
		for _, d := range seed.deviations {
			r := seed.recipe()
			d.change(r)
			if request := r.make(f, "x").Spec.Request; len(request) < 1<<12 { // the fuzzer is slow with long seeds
				f.Add(request, seed.serving)
			}
		}
	}
	f.Fuzz(func(t *testing.T, request []byte, serving bool) {
		r, recipe := requestor{clientSigner, tokenA}, clientRecipe()
		if serving {
			r, recipe = requestor{servingSigner, "node-a"}, servingRecipe()
		}
		err := check(r, &certificatesv1.CertificateSigningRequestSpec{Request: request, Usages: recipe.usages}, nodeA)
		if err == nil {
			checkApproved(t, request, serving)
			return
		}
		if reason, ok := errors.AsType[Refusal](err); !ok || len(reason) > 1024 || !utf8.ValidString(string(reason)) {
			t.Errorf("no proper refusal: %.2000q", err)
		}
	})
}

// checkApproved reads the request as the signer does.
func checkApproved(t *testing.T, request []byte, serving bool) {
	t.Helper()
	block, rest := pem.Decode(request)
	if block == nil {
		t.Fatal("approved what is no PEM")
	}
	if next, _ := pem.Decode(rest); next != nil {
		t.Error("approved two blocks")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatalf("approved what cannot be parsed: %v", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		t.Errorf("approved with a wrong signature: %v", err)
	}
	if parsed.Subject.CommonName != "system:node:node-a" || !slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) || len(parsed.Subject.Names) != 2 {
		t.Errorf("approved the subject %v", parsed.Subject)
	}
	if named := len(parsed.DNSNames)+len(parsed.IPAddresses) > 0; named != serving || len(parsed.EmailAddresses)+len(parsed.URIs) > 0 {
		t.Errorf("approved the names %v %v %v %v", parsed.DNSNames, parsed.IPAddresses, parsed.EmailAddresses, parsed.URIs)
	}
	for _, name := range parsed.DNSNames {
		if !nodeA.mayBeCalled(name) {
			t.Errorf("approved the name %q", name)
		}
	}
	for _, ip := range parsed.IPAddresses {
		if !nodeA.hasAddress(ip) {
			t.Errorf("approved the address %s", ip)
		}
	}
}
