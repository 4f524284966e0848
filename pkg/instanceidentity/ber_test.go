package instanceidentity

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func TestParseBER(t *testing.T) {
	t.Parallel()
	null := []byte{5, 0}
	nested := func(depth int) []byte {
		return slices.Concat(bytes.Repeat([]byte{tagSequence, indefinite}, depth), null, make([]byte, 2*depth))
	}
	many := func(elements int) []byte {
		return slices.Concat([]byte{tagSequence, indefinite}, bytes.Repeat(null, elements-1), endMark)
	}
	tests := []struct {
		name string
		data []byte
		want string // part of the error; empty: none
	}{
		{"primitive", tlv(tagOctets, 1, 2, 3), ""},
		{"long", tlv(tagOctets, make([]byte, 300)...), ""},
		{"length longer than needed", []byte{tagOctets, 0x83, 0, 0, 1, 7}, ""},
		{"constructed and empty", tlv(tagSequence), ""},
		{"deepest", nested(maxDepth), ""},
		{"most", many(maxElements), ""},
		{"nothing", nil, "too early"},
		{"tag only", []byte{5}, "too early"},
		{"length of length cut", []byte{tagOctets, 0x82, 1}, "too early"},
		{"length of five octets", []byte{tagOctets, 0x85, 0, 0, 0, 0, 1, 7}, "too early"},
		{"length beyond the end", []byte{tagOctets, 2, 7}, "too early"},
		{"greatest length", []byte{tagOctets, 0x84, 0xff, 0xff, 0xff, 0xff, 7}, "too early"},
		{"part beyond its whole", []byte{tagSequence, 3, tagOctets, 3, 1, 2, 3}, "too early"},
		{"no end mark", append([]byte{tagSequence, indefinite}, null...), "too early"},
		{"half an end mark", append([]byte{tagSequence, indefinite}, 5, 0, 0), "too early"},
		{"end mark beyond the whole", []byte{tagSequence, 4, tagSequence, indefinite, 5, 0, 0, 0}, "too early"},
		{"indefinite and empty", []byte{tagSequence, indefinite, 0, 0}, "without parts"},
		{"indefinite and primitive", []byte{tagOctets, indefinite, 5, 0, 0, 0}, "without parts"},
		{"end mark as an element", tlv(tagSequence, 0, 0), "of a kind"},
		{"high tag number", []byte{0x3f, 0x81, 1, 0}, "of a kind"},
		{"too deep", nested(maxDepth + 1), "too deeply"},
		{"much too deep", nested(3000), "too deeply"},
		{"too many", many(maxElements + 1), "too many"},
		{"something behind", append(tlv(tagOctets, 1), 5, 0), "follow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseBER(tt.data)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("parseBER: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("parseBER: %v, want %q", err, tt.want)
			}
		})
	}
}

// The PKCS#7 library accepts many of these, with a content and a signer of its
// choice.
func TestVerifyRefusesOtherFrames(t *testing.T) {
	t.Parallel()
	m := signed(aws())
	info := m.SignerInfos[0]
	oid := func(content []byte) []byte { return tlv(tagOID, content...) }
	join := slices.Concat[[]byte]
	version, digests := tlv(tagInteger, 1), tlv(tagSet)
	octets := tlv(tagOctets, m.Content...)
	content := func(parts ...[]byte) []byte {
		return tlv(tagSequence, join(oid(oidData), tlv(tagExplicit0, join(parts...)...))...)
	}
	inner := func(parts ...[]byte) []byte {
		return tlv(tagSequence, join(oid(oidSignedData), tlv(tagExplicit0, tlv(tagSequence, join(parts...)...)...))...)
	}
	whole := func(content []byte) []byte { return inner(version, digests, content, tlv(tagSet, info...)) }
	v := believing(t, Config{})
	if _, err := v.Verify(base64.StdEncoding.EncodeToString(whole(content(octets)))); err != nil {
		t.Fatalf("the frame that the others differ from: %v", err)
	}
	tests := []struct {
		name string
		raw  []byte
		want string
	}{
		{"set around", append([]byte{tagSet}, whole(content(octets))[1:]...), "no signed data"},
		{"a third part", tlv(tagSequence, join(oid(oidSignedData), tlv(tagExplicit0, tlv(tagSequence)...), version)...), "no signed data"},
		{"nothing in it", tlv(tagSequence, oid(oidSignedData)...), "no signed data"},
		{"signed data twice", tlv(tagSequence, join(oid(oidSignedData), tlv(tagExplicit0, join(tlv(tagSequence), tlv(tagSequence))...))...), "no signed data"},
		{"set inside", tlv(tagSequence, join(oid(oidSignedData), tlv(tagExplicit0, tlv(tagSet)...))...), "not the parts"},
		{"no parts", inner(), "not the parts"},
		{"second signers behind", inner(version, digests, content(octets), tlv(tagSet, info...), tlv(tagSet, info...)), "not the parts"},
		{"no signers", inner(version, digests, content(octets)), "not the parts"},
		{"no version", inner(digests, content(octets), tlv(tagSet, info...)), "not the parts"},
		{"certificates behind", inner(version, digests, content(octets), tlv(tagSet, info...), tlv(tagExplicit0)), "not the parts"},
		{"content twice", whole(content(octets, octets)), "no plain data"},
		{"nothing where the content is", whole(content()), "no plain data"},
		{"content without its kind", whole(tlv(tagSequence, tlv(tagExplicit0, octets...)...)), "no plain data"},
		{"content is text", whole(content(tlv(0x0c, m.Content...))), "no octet string"},
		{"content is a sequence", whole(content(tlv(tagSequence, m.Content...))), "message"},
		{"chunk is text", whole(content(tlv(tagConstructedOctets, tlv(0x0c, m.Content...)...))), "chunk"},
		{"chunk in chunks", whole(content(tlv(tagConstructedOctets, tlv(tagConstructedOctets, octets...)...))), "chunk"},
		{"no chunks", whole(content(tlv(tagConstructedOctets))), "empty"},
		{"certificate that is none", inner(version, digests, content(octets), tlv(tagExplicit0, tlv(tagSequence)...), tlv(tagSet, info...)), "read as PKCS#7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRefused(t, v, base64.StdEncoding.EncodeToString(tt.raw), ReasonMalformed, tt.want)
		})
	}
}
