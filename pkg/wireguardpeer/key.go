package wireguardpeer

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
)

// keyLength is the length of every WireGuard key, in bytes.
const keyLength = 32

// secret is a key that does not print itself. Behind the pointer package fmt
// finds an address.
type secret struct{ text *string }

func (s secret) reveal() string { return *s.text }

// String blots the key out.
func (s secret) String() string { return "REDACTED" }

// Format makes every verb of package fmt print what String returns.
func (s secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

func newSecret(key []byte) secret {
	text := base64.StdEncoding.EncodeToString(key)
	return secret{&text}
}

// newKeyPair draws a private key, clamped as `wg genkey` does, and returns it with
// its public key in base64.
func newKeyPair() (private secret, public string, err error) {
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // never fails
	key[0] &= 248
	key[31] = key[31]&127 | 64
	pair, err := ecdh.X25519().NewPrivateKey(key)
	if err != nil {
		return secret{}, "", fmt.Errorf("make a key: %w", err)
	}
	return newSecret(key), base64.StdEncoding.EncodeToString(pair.PublicKey().Bytes()), nil
}

func newPresharedKey() secret {
	key := make([]byte, keyLength)
	_, _ = rand.Read(key) // never fails
	return newSecret(key)
}

// parseKey reads a key as WireGuard writes it. The error does not quote it: what
// was given may be a private key.
func parseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	if len(key) != keyLength {
		return nil, fmt.Errorf("it has %d bytes, a WireGuard key has %d", len(key), keyLength)
	}
	if [keyLength]byte(key) == [keyLength]byte{} {
		return nil, errors.New("it is all zeros")
	}
	return key, nil
}
