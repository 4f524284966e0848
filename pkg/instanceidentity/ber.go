package instanceidentity

import (
	"bytes"
	"errors"
)

// Bounds of a message. A genuine one has 10 levels and 82 elements; the PKCS#7
// library copies a message once a level and searches it once an element.
const (
	maxDepth    = 16
	maxElements = 256
)

// ASN.1 identifier octets: class, constructed or not, and tag number.
const (
	tagInteger           = 0x02
	tagOctets            = 0x04
	tagOID               = 0x06
	tagConstructedOctets = 0x24
	tagSequence          = 0x30
	tagSet               = 0x31
	tagExplicit0         = 0xa0
	tagExplicit1         = 0xa1

	constructed  = 0x20 // bit of an identifier
	highTag      = 0x1f // tag number that says that a longer one follows
	indefinite   = 0x80 // length octet: until the end mark
	maxLengthLen = 4    // octets of a length
)

// endMark ends an element of indefinite length.
var endMark = []byte{0, 0}

// element is an ASN.1 element in BER, the subset that signed data needs: tag
// numbers up to 30.
type element struct {
	tag     byte
	content []byte    // of a primitive element
	parts   []element // of a constructed element
}

// is reports whether the element is an object identifier of this encoding.
func (e element) is(oid []byte) bool { return e.tag == tagOID && bytes.Equal(e.content, oid) }

// parseBER reads the element that fills data to its last byte. Unlike the
// PKCS#7 library's reader it knows bounds, and lets no part reach beyond its
// whole: what passes here, both read alike.
func parseBER(data []byte) (element, error) {
	r := berReader{}
	e, rest, err := r.element(data, 0)
	if err == nil && len(rest) > 0 {
		err = errors.New("bytes follow the message")
	}
	return e, err
}

type berReader struct{ elements int }

// element reads the first element of data and returns what follows it.
func (r *berReader) element(data []byte, depth int) (element, []byte, error) {
	r.elements++
	switch {
	case depth > maxDepth:
		return element{}, nil, errors.New("the message is nested too deeply")
	case r.elements > maxElements:
		return element{}, nil, errors.New("the message has too many elements")
	case len(data) < 2:
		return element{}, nil, errTruncated
	case data[0] == 0 || data[0]&highTag == highTag:
		return element{}, nil, errors.New("the message has an element of a kind that signed data does not have")
	}
	e := element{tag: data[0]}
	if data[1] == indefinite {
		return r.untilMark(e, data[2:], depth)
	}
	content, rest, err := cutLength(data[1:])
	if err != nil {
		return element{}, nil, err
	}
	if e.tag&constructed == 0 {
		e.content = content
		return e, rest, nil
	}
	for len(content) > 0 {
		var part element
		if part, content, err = r.element(content, depth+1); err != nil {
			return element{}, nil, err
		}
		e.parts = append(e.parts, part)
	}
	return e, rest, nil
}

// untilMark reads the parts of an element of indefinite length. Without parts
// the library would take the end mark for one.
func (r *berReader) untilMark(e element, data []byte, depth int) (element, []byte, error) {
	if e.tag&constructed == 0 || bytes.HasPrefix(data, endMark) {
		return element{}, nil, errors.New("the message has an element of indefinite length without parts")
	}
	for !bytes.HasPrefix(data, endMark) {
		part, rest, err := r.element(data, depth+1)
		if err != nil {
			return element{}, nil, err
		}
		e.parts, data = append(e.parts, part), rest
	}
	return e, data[len(endMark):], nil
}

var errTruncated = errors.New("the message ends too early")

// cutLength cuts what the length at the beginning of data counts. data is not
// empty.
func cutLength(data []byte) (content, rest []byte, err error) {
	length := int(data[0])
	data = data[1:]
	if length > indefinite {
		n := length - indefinite
		if n > maxLengthLen || n > len(data) {
			return nil, nil, errTruncated
		}
		length = 0
		for _, b := range data[:n] {
			length = length<<8 | int(b)
		}
		data = data[n:]
	}
	if length < 0 || length > len(data) {
		return nil, nil, errTruncated
	}
	return data[:length], data[length:], nil
}
