package instanceidentity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/asn1"
	"encoding/base64"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/smallstep/pkcs7"

	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

const (
	home    = "us-east-2" // the region of most documents
	away    = "eu-west-1"
	newborn = "eu-moon-1" // a region without a built-in certificate
)

// Keys take long to make, so each authority is made once. Their certificates
// have the same issuer and serial number: only the key tells them apart.
var (
	aws       = made(2048) // signs for home
	elsewhere = made(2048) // signs for away
	attacker  = made(2048)
	weak      = made(1024)
)

func made(bits int) func() *instanceidentitytest.Authority {
	return sync.OnceValue(func() *instanceidentitytest.Authority {
		return must(instanceidentitytest.NewSize(bits))
	})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// onCurve is an authority whose key is not RSA.
var onCurve = sync.OnceValue(func() *instanceidentitytest.Authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	return must(instanceidentitytest.NewWith(key, time.Unix(0, 0), time.Now().AddDate(1, 0, 0)))
})

// subject is the document of most tests.
var subject = instanceidentitytest.Fields{
	InstanceID:  "i-078517ca8a70a1dde",
	Account:     "278576220453",
	Region:      home,
	Type:        "t2.medium",
	PrivateIP:   netip.MustParseAddr("10.0.0.209"),
	PendingTime: time.Date(2021, 9, 3, 21, 25, 44, 0, time.UTC),
}

// subjectDocument is what subject says.
var subjectDocument = Document{
	InstanceID:  "i-078517ca8a70a1dde",
	Account:     "278576220453",
	Region:      home,
	Zone:        "us-east-2a",
	Type:        "t2.medium",
	PrivateIP:   netip.MustParseAddr("10.0.0.209"),
	PendingTime: time.Date(2021, 9, 3, 21, 25, 44, 0, time.UTC),
}

// believing returns a Verifier of cfg that knows aws and elsewhere too.
func believing(t testing.TB, cfg Config) *Verifier {
	t.Helper()
	cfg.Extra = append(cfg.Extra,
		ExtraCertificates{Region: home, PEM: aws().CertificatePEM()},
		ExtraCertificates{Region: away, PEM: elsewhere().CertificatePEM()})
	v, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return v
}

// like returns an authority that is a, but digests otherwise.
func like(a *instanceidentitytest.Authority, digest asn1.ObjectIdentifier) *instanceidentitytest.Authority {
	changed := *a
	changed.Digest = digest
	return &changed
}

// in returns subject in another region.
func in(region string) instanceidentitytest.Fields {
	f := subject
	f.Region = region
	return f
}

// signed returns subject's content, signed by a, ready to be changed.
func signed(a *instanceidentitytest.Authority) instanceidentitytest.Message {
	return must(a.Message(subject.JSON()))
}

// tamper changes the decoded bytes of a document.
func tamper(encoded string, change func([]byte) []byte) string {
	raw := must(base64.StdEncoding.DecodeString(encoded))
	return base64.StdEncoding.EncodeToString(change(raw))
}

// withoutAttributes returns a SignerInfo that signs the content itself.
func withoutAttributes(a *instanceidentitytest.Authority, content []byte) []byte {
	data := must(pkcs7.NewSignedData(content))
	data.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := data.SignWithoutAttr(a.Certificate, a.Key, pkcs7.SignerInfoConfig{}); err != nil {
		panic(err)
	}
	return must(asn1.Marshal(data.GetSignedData().SignerInfos[0]))
}
