package instanceidentity

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	"github.com/smallstep/pkcs7"
)

// algorithms are the digests that are believed, each with the one name of a
// signature that goes with it, beside the plain rsaEncryption.
var algorithms = []struct{ digest, signature asn1.ObjectIdentifier }{
	{pkcs7.OIDDigestAlgorithmSHA256, pkcs7.OIDEncryptionAlgorithmRSASHA256},
	{pkcs7.OIDDigestAlgorithmSHA384, pkcs7.OIDEncryptionAlgorithmRSASHA384},
	{pkcs7.OIDDigestAlgorithmSHA512, pkcs7.OIDEncryptionAlgorithmRSASHA512},
}

// verify checks that one of the certificates made the only signature. Those
// inside the message are not looked at.
func (m message) verify(region string, certs []*x509.Certificate) error {
	switch {
	case m.signers != 1:
		return fmt.Errorf("it has %d signers, want 1", m.signers)
	case len(m.signed.Signers) != 1: // the library drops all when it cannot read one
		return errors.New("its signer cannot be read")
	case len(certs) == 0:
		return fmt.Errorf("no certificate is known for region %+q", quotable(region))
	}
	if err := m.checkAlgorithms(); err != nil {
		return err
	}
	if err := m.checkAttributes(); err != nil {
		return err
	}
	return m.signedByOne(certs)
}

// checkAlgorithms keeps the library from SHA-1, DSA, ECDSA and from signature
// names that contradict the digest.
func (m message) checkAlgorithms() error {
	signer := m.signed.Signers[0]
	for _, a := range algorithms {
		if !signer.DigestAlgorithm.Algorithm.Equal(a.digest) {
			continue
		}
		name := signer.DigestEncryptionAlgorithm.Algorithm
		if !name.Equal(a.signature) && !name.Equal(pkcs7.OIDEncryptionAlgorithmRSA) {
			return errors.New("its signature is not RSA PKCS #1 v1.5 with the signer's digest")
		}
		return nil
	}
	return errors.New("its digest is none of SHA-256, SHA-384 and SHA-512")
}

// checkAttributes demands what the library only looks at when it is there:
// without signed attributes it takes the signature for one of the content,
// and it never compares the kind of content.
func (m message) checkAttributes() error {
	count := map[string]int{}
	for _, a := range m.signed.Signers[0].AuthenticatedAttributes {
		count[a.Type.String()]++
	}
	switch {
	case count[pkcs7.OIDAttributeMessageDigest.String()] != 1:
		return errors.New("its signer signed not exactly one message digest")
	case count[pkcs7.OIDAttributeContentType.String()] != 1:
		return errors.New("its signer signed not exactly one content type")
	case count[pkcs7.OIDAttributeSigningTime.String()] > 1:
		return errors.New("its signer signed more than one signing time")
	}
	var kind asn1.ObjectIdentifier
	if err := m.signed.UnmarshalSignedAttribute(pkcs7.OIDAttributeContentType, &kind); err != nil || !kind.Equal(pkcs7.OIDData) {
		return errors.New("its signer signed something else than plain data")
	}
	return nil
}

// signedByOne tries the certificates one by one, so that the library has no
// other to choose. Its error is that of the last certificate that is the
// signer by issuer and serial number.
func (m message) signedByOne(certs []*x509.Certificate) error {
	err := errors.New("its signer is no certificate of its region")
	for _, cert := range certs {
		m.signed.Certificates = []*x509.Certificate{cert}
		if m.signed.GetOnlySigner() != cert {
			continue
		}
		if err = m.signedBy(cert); err == nil {
			return nil
		}
	}
	return err
}

// signedBy puts the library's errors into own words, for they print digests.
func (m message) signedBy(cert *x509.Certificate) error {
	// The library compares the signing time, if there is one, with the
	// certificate's validity, but not today.
	if now := time.Now(); now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return errors.New("its region's certificate is not valid today")
	}
	err := m.signed.Verify()
	var digest *pkcs7.MessageDigestMismatchError
	var signingTime *pkcs7.SigningTimeNotValidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &digest):
		return errors.New("its content has another digest than was signed")
	case errors.As(err, &signingTime):
		return errors.New("it was signed while its region's certificate was not valid")
	case errors.Is(err, rsa.ErrVerification):
		return errors.New("its signature is wrong")
	}
	return errors.New("its signature cannot be checked")
}
