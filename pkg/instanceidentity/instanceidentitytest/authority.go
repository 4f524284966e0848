package instanceidentitytest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/smallstep/pkcs7"
)

// Authority signs documents. Those of New are as good as AWS; one with a field
// changed is an impostor.
type Authority struct {
	// Certificate names the signer.
	Certificate *x509.Certificate
	// Key makes the signatures: RSA, ECDSA or DSA.
	Key crypto.PrivateKey
	// Digest is the digest that is signed. nil: SHA-256.
	Digest asn1.ObjectIdentifier
}

// New makes an Authority with an RSA key of 2048 bits, which takes a part of a
// second. The certificates of all have one name and one serial number, so that
// only the key tells them apart.
func New() (*Authority, error) { return NewSize(2048) }

// NewSize is New for another size of the key in bits.
func NewSize(bits int) (*Authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	// Valid on every day that a test's clock may show.
	return NewWith(key, time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC))
}

// NewWith makes an Authority with a given key, whose certificate is valid in
// the given time.
func NewWith(key crypto.Signer, notBefore, notAfter time.Time) (*Authority, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x6479_6e6b_3873),
		Subject:      pkix.Name{Organization: []string{"Instance identity documents for tests"}},
		NotBefore:    notBefore,
		NotAfter:     notAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &Authority{Certificate: cert, Key: key}, nil
}

// CertificatePEM is what a Verifier needs to believe the authority.
func (a *Authority) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate.Raw})
}

// Sign returns a signed document as the metadata service gives it, but on one
// line; Wrap breaks it into lines.
func (a *Authority) Sign(f Fields) (string, error) {
	m, err := a.Message(f.JSON())
	if err != nil {
		return "", err
	}
	return m.BER(), nil
}

// SignDER is Sign with DER instead of the real BER.
func (a *Authority) SignDER(f Fields) (string, error) {
	m, err := a.Message(f.JSON())
	if err != nil {
		return "", err
	}
	return m.DER(), nil
}

// Message returns signed data with any content.
func (a *Authority) Message(content []byte) (Message, error) {
	info, err := a.SignerInfo(content)
	if err != nil {
		return Message{}, err
	}
	return Message{Content: content, SignerInfos: [][]byte{info}}, nil
}

// SignerInfo returns the signature of content with its signed attributes, in
// DER.
func (a *Authority) SignerInfo(content []byte) ([]byte, error) {
	data, err := pkcs7.NewSignedData(content)
	if err != nil {
		return nil, fmt.Errorf("sign a document: %w", err)
	}
	data.SetDigestAlgorithm(a.digest())
	if err := data.AddSigner(a.Certificate, a.Key, pkcs7.SignerInfoConfig{}); err != nil {
		return nil, fmt.Errorf("sign a document: %w", err)
	}
	info, err := asn1.Marshal(data.GetSignedData().SignerInfos[0])
	if err != nil {
		return nil, fmt.Errorf("encode a signature: %w", err)
	}
	return info, nil
}

func (a *Authority) digest() asn1.ObjectIdentifier {
	if a.Digest == nil {
		return pkcs7.OIDDigestAlgorithmSHA256
	}
	return a.Digest
}
