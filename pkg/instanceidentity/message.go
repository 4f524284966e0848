package instanceidentity

import (
	"bytes"
	"errors"

	"github.com/smallstep/pkcs7"
)

// message is a signed message whose signature is not verified yet.
type message struct {
	frame
	signed *pkcs7.PKCS7
}

// parseMessage reads the whole of raw. Errors of the library are not passed on:
// those about certificates quote what is in them.
func parseMessage(raw []byte) (message, error) {
	whole, err := parseBER(raw)
	if err != nil {
		return message{}, err
	}
	f, err := readFrame(whole)
	if err != nil {
		return message{}, err
	}
	signed, err := pkcs7.Parse(raw)
	if err != nil {
		return message{}, errors.New("it cannot be read as PKCS#7")
	}
	// Two readers, one truth: what is parsed must be what is verified.
	if !bytes.Equal(signed.Content, f.content) {
		return message{}, errors.New("its content can be read in two ways")
	}
	return message{frame: f, signed: signed}, nil
}
