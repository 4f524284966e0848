package instanceidentity

import (
	"crypto"
	"encoding/asn1"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/smallstep/pkcs7"

	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

// strict allows what subject needs and no more.
var strict = Config{Accounts: []string{subject.Account}, Regions: []string{home}}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	v := believing(t, strict)
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRefused(t, v, tt.encoded, tt.reason, tt.text)
		})
	}
}

// checkRefused checks that v refuses a document for a reason that it names.
func checkRefused(t *testing.T, v *Verifier, encoded, reason, text string) {
	t.Helper()
	doc, err := v.Verify(encoded)
	var refused *Refusal
	if !errors.As(err, &refused) {
		t.Fatalf("Verify() = %+v, %v; want a refusal", doc, err)
	}
	if doc != (Document{}) {
		t.Errorf("a document beside the error: %+v", doc)
	}
	if refused.Reason() != reason || !strings.Contains(err.Error(), text) {
		t.Errorf("refused for %q: %v; want %q and %q", refused.Reason(), err, reason, text)
	}
}

func TestVerifyBelieves(t *testing.T) {
	t.Parallel()
	chunked, ownCertificate := signed(aws()), signed(aws())
	chunked.Chunk = 7
	ownCertificate.Certificates = [][]byte{attacker().Certificate.Raw, aws().Certificate.Raw}
	tests := []struct{ name, encoded string }{
		{"BER", must(aws().Sign(subject))},
		{"DER", must(aws().SignDER(subject))},
		{"BER in many chunks", chunked.BER()},
		{"certificates inside, which count for nothing", ownCertificate.BER()},
		{"certificates inside, DER", ownCertificate.DER()},
		{"SHA-384", must(like(aws(), pkcs7.OIDDigestAlgorithmSHA384).Sign(subject))},
		{"SHA-512", must(like(aws(), pkcs7.OIDDigestAlgorithmSHA512).Sign(subject))},
		{"signature named RSA only", forged(func(s *signerInfo) { s.Algorithm.Algorithm = pkcs7.OIDEncryptionAlgorithmRSA }).BER()},
		{"no signing time", resigned(func(s *signerInfo) { s.drop(pkcs7.OIDAttributeSigningTime) }).BER()},
		{"unsigned attributes, which count for nothing", forged(func(s *signerInfo) {
			s.Unsigned = []attribute{newAttribute(pkcs7.OIDAttributeMessageDigest, []byte("x"))}
		}).BER()},
		{"an unknown signed attribute", resigned(func(s *signerInfo) {
			s.Signed = append(s.Signed, newAttribute(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 52}, 1))
		}).BER()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, cfg := range []Config{{}, strict} {
				doc, err := believing(t, cfg).Verify(tt.encoded)
				if err != nil || doc != subjectDocument {
					t.Errorf("Verify() = %+v, %v; want %+v", doc, err, subjectDocument)
				}
			}
		})
	}
}

func TestExtraCertificates(t *testing.T) {
	t.Parallel()
	both := append(attacker().CertificatePEM(), aws().CertificatePEM()...)
	tests := []struct {
		name   string
		extra  []ExtraCertificates
		region string
		want   string // reason; empty: believed
	}{
		{"for this region", []ExtraCertificates{{home, aws().CertificatePEM()}}, home, ""},
		{"for this new region", []ExtraCertificates{{newborn, aws().CertificatePEM()}}, newborn, ""},
		{"for another region", []ExtraCertificates{{away, aws().CertificatePEM()}}, home, ReasonSigner},
		{"for another new region", []ExtraCertificates{{"eu-moon-2", aws().CertificatePEM()}}, newborn, ReasonSigner},
		{"for every region", []ExtraCertificates{{"", aws().CertificatePEM()}}, home, ""},
		{"for every region, a new one", []ExtraCertificates{{"", aws().CertificatePEM()}}, newborn, ""},
		{"second in its file", []ExtraCertificates{{home, both}}, home, ""},
		{"second in its list", []ExtraCertificates{{home, attacker().CertificatePEM()}, {home, aws().CertificatePEM()}}, home, ""},
		{"behind those of the region", []ExtraCertificates{{"", aws().CertificatePEM()}, {home, attacker().CertificatePEM()}}, home, ""},
		{"none", nil, home, ReasonSigner},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := New(Config{Extra: tt.extra})
			if err != nil {
				t.Fatal(err)
			}
			encoded := must(aws().Sign(in(tt.region)))
			if tt.want != "" {
				checkRefused(t, v, encoded, tt.want, "")
				return
			}
			if doc, err := v.Verify(encoded); err != nil || doc.Region != tt.region {
				t.Errorf("Verify() = %+v, %v", doc, err)
			}
		})
	}
}

func TestCertificateValidity(t *testing.T) {
	t.Parallel()
	key := aws().Key.(crypto.Signer)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		short := must(instanceidentitytest.NewWith(key, start.Add(time.Hour), start.Add(3*time.Hour)))
		v, err := New(Config{Extra: []ExtraCertificates{{home, short.CertificatePEM()}}})
		if err != nil {
			t.Fatalf("a certificate for later is refused: %v", err)
		}
		checkRefused(t, v, must(short.Sign(subject)), ReasonSigner, "not valid today")
		time.Sleep(2 * time.Hour)
		encoded := must(short.Sign(subject))
		if _, err := v.Verify(encoded); err != nil {
			t.Errorf("a valid certificate: %v", err)
		}
		time.Sleep(2 * time.Hour)
		checkRefused(t, v, encoded, ReasonSigner, "not valid today")
		_, err = New(Config{Extra: []ExtraCertificates{{home, short.CertificatePEM()}}})
		if err == nil || !strings.Contains(err.Error(), "expired on 2000-01-01") {
			t.Errorf("New with an expired certificate: %v", err)
		}
	})
}

func TestVerifierKeepsItsOwnCopy(t *testing.T) {
	t.Parallel()
	cfg := Config{Accounts: []string{subject.Account}, Regions: []string{home}}
	v := believing(t, cfg)
	cfg.Accounts[0], cfg.Regions[0] = "000000000000", away
	if _, err := v.Verify(must(aws().Sign(subject))); err != nil {
		t.Errorf("after the caller changed its lists: %v", err)
	}
}

func TestVerifyAtTheSameTime(t *testing.T) {
	t.Parallel()
	v := believing(t, strict)
	good, bad := must(aws().Sign(subject)), must(attacker().Sign(subject))
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 50 {
				if doc, err := v.Verify(good); err != nil || doc != subjectDocument {
					t.Fatalf("Verify() = %+v, %v", doc, err)
				}
				checkRefused(t, v, bad, ReasonSigner, "")
			}
		})
	}
}
