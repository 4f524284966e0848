package instanceidentity

import (
	"bytes"
	"crypto/dsa" //nolint:staticcheck // makes signatures that must be refused
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/smallstep/pkcs7"

	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

// refusal is a document that believing(Config{Accounts: …, Regions: …}) refuses.
type refusal struct {
	name    string
	encoded string
	reason  string
	text    string // part of the error
}

// refusals are all kinds of bad documents, made once.
var refusals = sync.OnceValue(func() []refusal {
	return slices.Concat(badEncodings(), badFrames(), badSigners(), badAlgorithms(), badAttributes(), notAllowed())
})

func badEncodings() []refusal {
	good := must(aws().Sign(subject))
	urlSafe := strings.NewReplacer("+", "-", "/", "_").Replace(good)
	plain := base64.StdEncoding.EncodeToString(subject.JSON())
	// The last character before the padding carries bits that must be zero.
	loose := []byte(base64.StdEncoding.EncodeToString(append(bytes.Clone(subject.JSON()), 0)[:100]))
	loose[len(loose)-3]++
	return []refusal{
		{"empty", "", ReasonMalformed, "empty"},
		{"1 MiB", strings.Repeat("A", 1<<20), ReasonSize, "1048576"},
		{"a byte too long", strings.Repeat("A", MaxEncoded+1), ReasonSize, "8193"},
		{"just not too long", strings.Repeat("A", MaxEncoded), ReasonMalformed, ""},
		{"no base64", "!" + good[1:], ReasonMalformed, "byte 0 of"},
		{"URL-safe base64", urlSafe, ReasonMalformed, "standard base64"},
		{"lines, as the metadata service breaks them", instanceidentitytest.Wrap(good), ReasonMalformed, "line breaks"},
		{"lines of Windows", strings.ReplaceAll(instanceidentitytest.Wrap(good), "\n", "\r\n"), ReasonMalformed, "line breaks"},
		{"line break at the end", good + "\n", ReasonMalformed, "line breaks"},
		{"space before", " " + good, ReasonMalformed, "standard base64"},
		{"space after", good + " ", ReasonMalformed, "standard base64"},
		{"padding missing", strings.TrimRight(tamper(good, pad), "="), ReasonMalformed, "standard base64"},
		{"padding with bits", string(loose), ReasonMalformed, "standard base64"},
		{"base64 cut in the middle of a group", good[:len(good)/2/4*4+1], ReasonMalformed, "standard base64"},
		{"base64 cut between groups", good[:len(good)/2/4*4], ReasonMalformed, "ends too early"},
		{"last group missing", good[:len(good)-4], ReasonMalformed, "ends too early"},
		{"PEM", "-----BEGIN PKCS7-----" + good + "-----END PKCS7-----", ReasonMalformed, "standard base64"},
		{"plain JSON", plain, ReasonMalformed, ""},
		{"plain JSON, not encoded", string(subject.JSON()), ReasonMalformed, "line breaks"},
		{"JSON in front", plain + good, ReasonMalformed, ""},
		{"JSON behind, as bytes", tamper(good, func(b []byte) []byte { return append(b, subject.JSON()...) }), ReasonMalformed, "follow"},
		{"a byte behind", tamper(good, func(b []byte) []byte { return append(b, 0) }), ReasonMalformed, "follow"},
		{"the same behind", tamper(good, func(b []byte) []byte { return append(b, b...) }), ReasonMalformed, "follow"},
		{"a byte behind DER", tamper(must(aws().SignDER(subject)), func(b []byte) []byte { return append(b, 0) }), ReasonMalformed, "follow"},
	}
}

// pad makes the length such that base64 needs padding.
func pad(raw []byte) []byte { return raw[:len(raw)/3*3-1] }

func badFrames() []refusal {
	detached := signed(aws())
	detached.Content = nil
	empty := must(aws().Message([]byte{}))
	// replaceOnce changes the first of some bytes of a DER document.
	replaceOnce := func(old, new []byte) string {
		return tamper(must(aws().SignDER(subject)), func(b []byte) []byte { return bytes.Replace(b, old, new, 1) })
	}
	oid := func(last byte) []byte { return append(bytes.Clone(oidData[:8]), last) }
	return []refusal{
		{"detached", detached.BER(), ReasonMalformed, "not inside"},
		{"detached DER", detached.DER(), ReasonMalformed, "not inside"},
		{"empty content", empty.BER(), ReasonMalformed, "without parts"},
		{"empty content, DER", empty.DER(), ReasonMalformed, "empty"},
		{"data", replaceOnce(oidSignedData, oidData), ReasonMalformed, "no signed data"},
		{"enveloped data", replaceOnce(oidSignedData, oid(3)), ReasonMalformed, "no signed data"},
		{"encrypted data", replaceOnce(oidSignedData, oid(6)), ReasonMalformed, "no signed data"},
		{"content of another kind", replaceOnce(oidData, oid(5)), ReasonMalformed, "no plain data"},
		{"no PKCS#7", base64.StdEncoding.EncodeToString(tlv(tagInteger, 1)), ReasonMalformed, "no signed data"},
		{"a certificate", base64.StdEncoding.EncodeToString(aws().Certificate.Raw), ReasonMalformed, "no signed data"},
	}
}

func badSigners() []refusal {
	foreign := signed(attacker())
	both := func(infos ...[]byte) string {
		m := signed(aws())
		m.SignerInfos = infos
		return m.BER()
	}
	good, bad := signed(aws()).SignerInfos[0], foreign.SignerInfos[0]
	ownCertificate := foreign
	ownCertificate.Certificates = [][]byte{attacker().Certificate.Raw}
	named := signed(stranger())
	named.Certificates = [][]byte{stranger().Certificate.Raw}
	replaced := signed(aws())
	replaced.Content = instanceidentitytest.Fields{Region: home}.JSON()
	id := []byte(subject.InstanceID)
	return []refusal{
		{"attacker", foreign.BER(), ReasonSigner, "signature is wrong"},
		{"attacker, with his certificate inside", ownCertificate.BER(), ReasonSigner, "signature is wrong"},
		{"attacker of another name, with his certificate inside", named.BER(), ReasonSigner, "no certificate of its region"},
		{"certificate of another region", must(elsewhere().Sign(subject)), ReasonSigner, "signature is wrong"},
		{"another region's document", must(aws().Sign(in(away))), ReasonSigner, "signature is wrong"},
		{"unknown region", must(aws().Sign(in(newborn))), ReasonSigner, `region "eu-moon-1"`},
		{"region of another case", must(aws().Sign(in("US-EAST-2"))), ReasonSigner, `region "US-EAST-2"`},
		{"unknown region that is no word", must(aws().Sign(in("é\n" + strings.Repeat("x", 99)))), ReasonSigner, `"\u00e9\n` + strings.Repeat("x", 29) + `"`},
		{"no signer", both(), ReasonSigner, "0 signers"},
		{"two good signers", both(good, good), ReasonSigner, "2 signers"},
		{"a good and a bad signer", both(good, bad), ReasonSigner, "2 signers"},
		{"a bad and a good signer", both(bad, good), ReasonSigner, "2 signers"},
		{"a good signer and nonsense", both(good, tlv(tagInteger, 1)), ReasonSigner, "2 signers"},
		{"a signer that is nonsense", both(tlv(tagInteger, 1)), ReasonSigner, "cannot be read"},
		{"tampered content", tamper(must(aws().Sign(subject)), func(b []byte) []byte {
			return bytes.Replace(b, id, []byte("i-00000000000000000"), 1)
		}), ReasonSigner, "another digest"},
		{"content replaced", replaced.BER(), ReasonSigner, "another digest"},
		{"tampered signature", forged(func(s *signerInfo) { s.Signature[100] ^= 1 }).BER(), ReasonSigner, "signature is wrong"},
		{"signature cut", forged(func(s *signerInfo) { s.Signature = s.Signature[:255] }).BER(), ReasonSigner, "signature is wrong"},
		{"signature empty", forged(func(s *signerInfo) { s.Signature = nil }).BER(), ReasonSigner, "signature is wrong"},
		{"not allowed and not signed", must(attacker().Sign(in(away))), ReasonSigner, "signature is wrong"},
	}
}

// stranger is the attacker under another name.
var stranger = sync.OnceValue(func() *instanceidentitytest.Authority {
	key := attacker().Key.(*rsa.PrivateKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &instanceidentitytest.Authority{Certificate: must(x509.ParseCertificate(der)), Key: key}
})

// impostor signs in aws's name with another key.
func impostor(key any) *instanceidentitytest.Authority {
	return &instanceidentitytest.Authority{Certificate: aws().Certificate, Key: key}
}

func badAlgorithms() []refusal {
	rename := func(id asn1.ObjectIdentifier) string {
		return forged(func(s *signerInfo) { s.Algorithm.Algorithm = id }).BER()
	}
	pss := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}
	return []refusal{
		{"SHA-1", must(like(aws(), pkcs7.OIDDigestAlgorithmSHA1).Sign(subject)), ReasonSigner, "digest is none of"},
		{"digest is RSA's name", forged(func(s *signerInfo) { s.Digest.Algorithm = pkcs7.OIDEncryptionAlgorithmRSASHA256 }).BER(), ReasonSigner, "digest is none of"},
		{"SHA-1 in the signature's name", rename(pkcs7.OIDEncryptionAlgorithmRSASHA1), ReasonSigner, "not RSA"},
		{"SHA-512 in the signature's name", rename(pkcs7.OIDEncryptionAlgorithmRSASHA512), ReasonSigner, "not RSA"},
		{"PSS", rename(pss), ReasonSigner, "not RSA"},
		{"RSA of 1024 bits", must(impostor(weak().Key).Sign(subject)), ReasonSigner, "signature is wrong"},
		{"ECDSA", must(impostor(onCurve().Key).Sign(subject)), ReasonSigner, "not RSA"},
		{"DSA", must(impostor(dsaKey()).Sign(subject)), ReasonSigner, "not RSA"},
		{"DSA with RSA's name", func() string {
			m := must(impostor(dsaKey()).Message(subject.JSON()))
			var s signerInfo
			must(asn1.Unmarshal(m.SignerInfos[0], &s))
			s.Algorithm.Algorithm = pkcs7.OIDEncryptionAlgorithmRSA
			m.SignerInfos[0] = must(asn1.Marshal(s))
			return m.BER()
		}(), ReasonSigner, "signature is wrong"},
	}
}

var dsaKey = sync.OnceValue(func() *dsa.PrivateKey {
	key := &dsa.PrivateKey{}
	if err := dsa.GenerateParameters(&key.Parameters, rand.Reader, dsa.L1024N160); err != nil {
		panic(err)
	}
	if err := dsa.GenerateKey(key, rand.Reader); err != nil {
		panic(err)
	}
	return key
})

func badAttributes() []refusal {
	bare := signed(aws())
	bare.SignerInfos = [][]byte{withoutAttributes(aws(), bare.Content)}
	long := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	other := newAttribute(pkcs7.OIDAttributeContentType, pkcs7.OIDSignedData)
	return []refusal{
		{"no signed attributes", bare.BER(), ReasonSigner, "one message digest"},
		{"signed attributes removed", forged(func(s *signerInfo) { s.Signed = nil }).BER(), ReasonSigner, "one message digest"},
		{"no message digest", resigned(func(s *signerInfo) { s.drop(pkcs7.OIDAttributeMessageDigest) }).BER(), ReasonSigner, "one message digest"},
		{"two message digests", resigned(func(s *signerInfo) { s.repeat(pkcs7.OIDAttributeMessageDigest) }).BER(), ReasonSigner, "one message digest"},
		{"message digest of nothing", resigned(func(s *signerInfo) {
			s.drop(pkcs7.OIDAttributeMessageDigest)
			s.Signed = append(s.Signed, newAttribute(pkcs7.OIDAttributeMessageDigest, []byte{}))
		}).BER(), ReasonSigner, "another digest"},
		{"message digest that is no octet string", resigned(func(s *signerInfo) {
			s.drop(pkcs7.OIDAttributeMessageDigest)
			s.Signed = append(s.Signed, newAttribute(pkcs7.OIDAttributeMessageDigest, 1))
		}).BER(), ReasonSigner, "cannot be checked"},
		{"message digest without a value", resigned(func(s *signerInfo) {
			s.drop(pkcs7.OIDAttributeMessageDigest)
			s.Signed = append(s.Signed, attribute{
				Type:  pkcs7.OIDAttributeMessageDigest,
				Value: asn1.RawValue{Tag: asn1.TagSet, IsCompound: true},
			})
		}).BER(), ReasonSigner, "cannot be checked"},
		{"no content type", resigned(func(s *signerInfo) { s.drop(pkcs7.OIDAttributeContentType) }).BER(), ReasonSigner, "one content type"},
		{"two content types", resigned(func(s *signerInfo) { s.Signed = append(s.Signed, other) }).BER(), ReasonSigner, "one content type"},
		{"another content type", resigned(func(s *signerInfo) {
			s.drop(pkcs7.OIDAttributeContentType)
			s.Signed = append(s.Signed, other)
		}).BER(), ReasonSigner, "plain data"},
		{"two signing times", resigned(func(s *signerInfo) { s.repeat(pkcs7.OIDAttributeSigningTime) }).BER(), ReasonSigner, "one signing time"},
		{"signed after the certificate's end", resigned(func(s *signerInfo) { s.signedAt(long) }).BER(), ReasonSigner, "was not valid"},
		{"tampered signing time", forged(func(s *signerInfo) { s.signedAt(subject.PendingTime) }).BER(), ReasonSigner, "signature is wrong"},
		{"attribute added", forged(func(s *signerInfo) {
			s.Signed = append(s.Signed, newAttribute(asn1.ObjectIdentifier{1, 2, 3}, 1))
		}).BER(), ReasonSigner, "signature is wrong"},
	}
}

func notAllowed() []refusal {
	account := subject
	account.Account = "000000000000"
	return []refusal{
		{"region not allowed", must(elsewhere().Sign(in(away))), ReasonRegion, `region "eu-west-1"`},
		{"account not allowed", must(aws().Sign(account)), ReasonAccount, "account"},
	}
}
