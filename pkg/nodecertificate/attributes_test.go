package nodecertificate

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// pkcs10 is a request as RFC 2986 has it, for what package x509 does not make.
type pkcs10 struct {
	Info      pkcs10Info
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

type pkcs10Info struct {
	Version            int
	Subject, PublicKey asn1.RawValue
	Attributes         []asn1.RawValue `asn1:"tag:0,set"`
}

func challengePassword(r *recipe) {
	r.encode = withAttribute(mustMarshal(struct {
		ID     asn1.ObjectIdentifier
		Values []string `asn1:"set"`
	}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, []string{"secret"}}))
}

// unreadableAttribute adds an extension request that package x509 passes over.
func unreadableAttribute(r *recipe) {
	r.encode = withAttribute(mustMarshal(struct {
		ID     asn1.ObjectIdentifier
		Values int
	}{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}, 5}))
}

// withAttribute adds an attribute to the request and signs it anew.
func withAttribute(attribute []byte) func([]byte) []byte {
	return func(der []byte) []byte {
		var request pkcs10
		if _, err := asn1.Unmarshal(der, &request); err != nil {
			panic(err)
		}
		request.Info.Attributes = append(request.Info.Attributes, asn1.RawValue{FullBytes: attribute})
		sum := sha256.Sum256(mustMarshal(request.Info))
		signature, err := testKey().Sign(rand.Reader, sum[:], crypto.SHA256)
		if err != nil {
			panic(err)
		}
		request.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
		return toPEM(mustMarshal(request))
	}
}
