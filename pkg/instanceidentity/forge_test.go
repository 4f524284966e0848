package instanceidentity

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"time"

	"github.com/smallstep/pkcs7"

	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

// signerInfo is the SignerInfo of RFC 2315, to be changed part by part.
type signerInfo struct {
	Version   int
	Signer    asn1.RawValue
	Digest    pkix.AlgorithmIdentifier
	Signed    []attribute `asn1:"optional,omitempty,tag:0"`
	Algorithm pkix.AlgorithmIdentifier
	Signature []byte
	Unsigned  []attribute `asn1:"optional,omitempty,tag:1"`
}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue `asn1:"set"`
}

// newAttribute returns an attribute of one value.
func newAttribute(id asn1.ObjectIdentifier, value any) attribute {
	raw := must(asn1.Marshal(value))
	return attribute{Type: id, Value: asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: raw}}
}

// forged returns subject with aws's SignerInfo changed.
func forged(change func(*signerInfo)) instanceidentitytest.Message {
	m := signed(aws())
	var s signerInfo
	must(asn1.Unmarshal(m.SignerInfos[0], &s))
	change(&s)
	m.SignerInfos[0] = must(asn1.Marshal(s))
	return m
}

// resigned is forged, but aws signs the changed attributes.
func resigned(change func(*signerInfo)) instanceidentitytest.Message {
	return forged(func(s *signerInfo) {
		change(s)
		attributes := must(asn1.MarshalWithParams(s.Signed, "set"))
		digest := sha256.Sum256(attributes)
		s.Signature = must(rsa.SignPKCS1v15(rand.Reader, aws().Key.(*rsa.PrivateKey), crypto.SHA256, digest[:]))
	})
}

// drop removes the attributes of a type.
func (s *signerInfo) drop(id asn1.ObjectIdentifier) {
	s.Signed = slices.DeleteFunc(s.Signed, func(a attribute) bool { return a.Type.Equal(id) })
}

// signedAt sets the signing time.
func (s *signerInfo) signedAt(t time.Time) {
	s.drop(pkcs7.OIDAttributeSigningTime)
	s.Signed = append(s.Signed, newAttribute(pkcs7.OIDAttributeSigningTime, t))
}

// repeat signs an attribute twice.
func (s *signerInfo) repeat(id asn1.ObjectIdentifier) {
	i := slices.IndexFunc(s.Signed, func(a attribute) bool { return a.Type.Equal(id) })
	s.Signed = append(s.Signed, s.Signed[i])
}

// tlv encodes an element of definite length.
func tlv(tag byte, content ...byte) []byte {
	return must(asn1.Marshal(asn1.RawValue{
		Class: int(tag >> 6), IsCompound: tag&constructed != 0, Tag: int(tag & highTag), Bytes: content,
	}))
}
