package bootstraptoken

import (
	"fmt"
	"log/slog"
	"strings"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// redacted stands where a token secret would be printed.
const redacted = "REDACTED"

// Token is a kubeadm bootstrap token, <id>.<secret>. The id is public; the
// secret never prints itself, whatever the verb or encoder: only Reveal gives
// it away. The zero Token is empty.
type Token struct {
	id string
	// Package fmt calls no methods of unexported fields, nor for the verbs p and
	// w, and prints what it finds; behind a pointer it finds an address.
	secret *string
}

// NewToken joins a token id and a token secret. It does not check their form.
func NewToken(id, secret string) Token { return Token{id: id, secret: &secret} }

// ID returns the public part, six characters of [a-z0-9].
func (t Token) ID() string { return t.id }

// Reveal returns the whole token, <id>.<secret>, for the instance that may
// have it.
func (t Token) Reveal() string {
	if t.secret == nil {
		return t.id + "."
	}
	return t.id + "." + *t.secret
}

// String returns the token with its secret blotted out.
func (t Token) String() string { return t.id + "." + redacted }

// Format makes every verb of package fmt print what String returns.
func (t Token) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, t.String()) }

// LogValue makes slog print what String returns.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText makes encoding/json and others write what String returns.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// newSecret returns a random token secret.
func newSecret() (string, error) {
	// The library makes id and secret in one; our ids are derived, not drawn.
	token, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return "", fmt.Errorf("draw a token secret: %w", err)
	}
	_, secret, _ := strings.Cut(token, ".")
	return secret, nil
}
