package instanceidentitytest

import (
	"bytes"
	"encoding/asn1"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/smallstep/pkcs7"
)

// Message is signed data of PKCS #7 that is put together by hand, so that it
// can be put together wrongly.
type Message struct {
	// Content is what is signed. nil: it is not inside.
	Content []byte
	// Chunk is the length of Content's chunks in BER, in bytes. 0: 1000, as
	// AWS.
	Chunk int
	// Certificates are put inside, in DER. None: as AWS.
	Certificates [][]byte
	// SignerInfos are the signatures, in DER.
	SignerInfos [][]byte
}

// BER encodes the message as AWS does: indefinite lengths, the content in
// chunks; in base64.
func (m Message) BER() string {
	var chunks [][]byte
	size := m.Chunk
	if size == 0 {
		size = 1000
	}
	for chunk := range slices.Chunk(m.Content, size) {
		chunks = append(chunks, definite(0x04, chunk))
	}
	return m.encode(indefinite, indefinite(0x24, chunks...))
}

// DER encodes the message as most programs do: definite lengths, the content in
// one piece; in base64.
func (m Message) DER() string { return m.encode(definite, definite(0x04, m.Content)) }

// encode puts the message together. wrap makes what surrounds content.
func (m Message) encode(wrap func(byte, ...[]byte) []byte, content []byte) string {
	info := [][]byte{oid(pkcs7.OIDData)}
	if m.Content != nil {
		info = append(info, wrap(0xa0, content))
	}
	sha256 := definite(0x30, oid(pkcs7.OIDDigestAlgorithmSHA256), definite(0x05))
	signed := [][]byte{definite(0x02, []byte{1}), definite(0x31, sha256), wrap(0x30, info...)}
	if len(m.Certificates) > 0 {
		signed = append(signed, wrap(0xa0, m.Certificates...))
	}
	signed = append(signed, definite(0x31, m.SignerInfos...))
	raw := wrap(0x30, oid(pkcs7.OIDSignedData), wrap(0xa0, wrap(0x30, signed...)))
	return base64.StdEncoding.EncodeToString(raw)
}

// oid encodes an object identifier; the library's are all good.
func oid(id asn1.ObjectIdentifier) []byte {
	raw, err := asn1.Marshal(id)
	if err != nil {
		panic(err)
	}
	return raw
}

// definite encodes an element of definite length. tag is the identifier octet.
func definite(tag byte, parts ...[]byte) []byte {
	raw, err := asn1.Marshal(asn1.RawValue{
		Class:      int(tag >> 6),
		IsCompound: tag&0x20 != 0,
		Tag:        int(tag & 0x1f),
		Bytes:      bytes.Join(parts, nil),
	})
	if err != nil {
		panic(err) // no tag of this package is wrong
	}
	return raw
}

// indefinite encodes an element of indefinite length.
func indefinite(tag byte, parts ...[]byte) []byte {
	return slices.Concat([]byte{tag, 0x80}, bytes.Join(parts, nil), []byte{0, 0})
}

// Wrap breaks a document into lines of 76 characters, as the metadata service
// does.
func Wrap(encoded string) string {
	var lines []string
	for line := range slices.Chunk([]byte(encoded), 76) {
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}
