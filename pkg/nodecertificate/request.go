package nodecertificate

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
)

const (
	pemType = "CERTIFICATE REQUEST"
	// maxRequest bounds the bytes that are parsed, in PEM. A kubelet's request
	// takes about one KiB; the API server takes megabytes, in which there is
	// room for an RSA key so large that verifying takes minutes.
	maxRequest = 8 << 10
)

// certificateRequest is a PKCS #10 request (RFC 2986).
type certificateRequest struct {
	*x509.CertificateRequest
	subject pkix.RDNSequence
	// attributes is how many there are, of any kind. Extensions are all in one.
	attributes int
}

// parseRequest reads spec.request, which the signer reads too: what it or
// another version of it might read differently is refused. The signature is not
// checked. Any error is a Refusal.
func parseRequest(encoded []byte) (certificateRequest, error) {
	if len(encoded) > maxRequest {
		return certificateRequest{}, refusef("request has %d bytes, at most %d are allowed", len(encoded), maxRequest)
	}
	block, _ := pem.Decode(encoded)
	// Decode looks for a block that it can read and passes over all else. There is
	// nothing else when the block alone gives the same bytes.
	if block == nil || !bytes.Equal(bytes.TrimSpace(encoded), bytes.TrimSpace(pem.EncodeToMemory(block))) {
		return certificateRequest{}, Refusal("request is not one PEM block and nothing else")
	}
	if block.Type != pemType || len(block.Headers) > 0 {
		return certificateRequest{}, refusef("request is no PEM block of type %q without headers", pemType)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return certificateRequest{}, refusef("request cannot be parsed: %s", quote(err.Error()))
	}
	return decompose(parsed)
}

// decompose reads what package x509 does not tell.
func decompose(parsed *x509.CertificateRequest) (certificateRequest, error) {
	var info struct {
		Version            int
		Subject, PublicKey asn1.RawValue
		Attributes         []asn1.RawValue `asn1:"tag:0"`
	}
	if rest, err := asn1.Unmarshal(parsed.RawTBSCertificateRequest, &info); err != nil || len(rest) > 0 {
		return certificateRequest{}, Refusal("request's information cannot be parsed")
	}
	r := certificateRequest{CertificateRequest: parsed, attributes: len(info.Attributes)}
	if rest, err := asn1.Unmarshal(parsed.RawSubject, &r.subject); err != nil || len(rest) > 0 {
		return certificateRequest{}, Refusal("request's subject cannot be parsed")
	}
	return r, nil
}
