package instanceidentity

import (
	"errors"
	"slices"
)

// Contents of the object identifiers of PKCS #7, 1.2.840.113549.1.7.
var (
	oidData       = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01}
	oidSignedData = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02}
)

// frame is what surrounds signatures: the content and how many signed it.
type frame struct {
	content []byte
	signers int
}

// readFrame takes a SignedData of RFC 2315 apart and leaves no element
// unaccounted for. The library ignores errors within it and what follows it.
//
//	ContentInfo ::= SEQUENCE { OID signedData, [0] { SignedData } }
//	SignedData  ::= SEQUENCE { INTEGER version, SET digestAlgorithms,
//	    SEQUENCE { OID data, [0] { OCTET STRING } },
//	    [0] certificates OPTIONAL, [1] crls OPTIONAL, SET signerInfos }
func readFrame(message element) (frame, error) {
	info := message.parts
	if message.tag != tagSequence || len(info) != 2 || !info[0].is(oidSignedData) ||
		info[1].tag != tagExplicit0 || len(info[1].parts) != 1 {
		return frame{}, errors.New("it is no signed data of PKCS#7")
	}
	signed := info[1].parts[0]
	if signed.tag != tagSequence || !slices.Contains(signedDataShapes, signed.shape()) {
		return frame{}, errors.New("its signed data has not the parts that PKCS#7 wants")
	}
	content, err := readContent(signed.parts[2])
	return frame{content: content, signers: len(signed.parts[len(signed.parts)-1].parts)}, err
}

// signedDataShapes are the tags of SignedData's parts, with and without the
// optional ones.
var signedDataShapes = []string{
	string([]byte{tagInteger, tagSet, tagSequence, tagSet}),
	string([]byte{tagInteger, tagSet, tagSequence, tagExplicit0, tagSet}),
	string([]byte{tagInteger, tagSet, tagSequence, tagExplicit1, tagSet}),
	string([]byte{tagInteger, tagSet, tagSequence, tagExplicit0, tagExplicit1, tagSet}),
}

func (e element) shape() string {
	tags := make([]byte, len(e.parts))
	for i, part := range e.parts {
		tags[i] = part.tag
	}
	return string(tags)
}

// readContent returns the octets of an octet string in one piece or in chunks.
func readContent(info element) ([]byte, error) {
	if len(info.parts) == 1 && info.parts[0].is(oidData) {
		return nil, errors.New("the document is not inside the signed data")
	}
	if len(info.parts) != 2 || !info.parts[0].is(oidData) ||
		info.parts[1].tag != tagExplicit0 || len(info.parts[1].parts) != 1 {
		return nil, errors.New("what is signed is no plain data")
	}
	octets := info.parts[1].parts[0]
	content := octets.content
	switch octets.tag {
	case tagOctets:
	case tagConstructedOctets:
		for _, chunk := range octets.parts {
			if chunk.tag != tagOctets {
				return nil, errors.New("a chunk of the signed content is no octet string")
			}
			content = append(content, chunk.content...)
		}
	default:
		return nil, errors.New("the signed content is no octet string")
	}
	if len(content) == 0 {
		return nil, errors.New("the signed content is empty")
	}
	return content, nil
}
