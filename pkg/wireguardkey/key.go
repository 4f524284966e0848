package wireguardkey

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// SecretType is the type of a key's Secret, and InstanceLabel the label on it
// that says who holds the key. Both are a contract with the operator.
const (
	SecretType    corev1.SecretType = "dynk8s.du5t1n.me/wireguard-key" //nolint:gosec // a type, no secret
	InstanceLabel                   = instance.Label
	// ConfigKey is the key in its data that holds a complete wg-quick configuration.
	ConfigKey = "wireguard-config"
)

// Annotations of a key's Secret.
const (
	allocatedTo = "dynk8s.du5t1n.me/allocated-to" // shadow of the label, should a hand remove it
	allocatedAt = "dynk8s.du5t1n.me/allocated-at"
	handedOutTo = "dynk8s.du5t1n.me/handed-out-to" // the mark
	handedOutAt = "dynk8s.du5t1n.me/handed-out-at"
	joinedAt    = "dynk8s.du5t1n.me/joined-at" // its holder's Node was Ready
	releasedAt  = "dynk8s.du5t1n.me/released-at"
)

var (
	// ErrExhausted says that no key of the pool is free.
	ErrExhausted = errors.New("no WireGuard key is free")
	// ErrTaken says that the key belongs to another instance.
	ErrTaken = errors.New("the WireGuard key belongs to another instance")
	// ErrUnusable says that there is no such key, or that it cannot be used: it
	// is not in the pool, of another type, or without a configuration.
	ErrUnusable = errors.New("the WireGuard key cannot be used")
)

// Key is a key's Secret as it was read. It holds the private key and prints
// nothing of it. The zero Key is none.
type Key struct {
	// Package fmt calls no methods of unexported fields, and follows one pointer
	// when the verb is a wrong one, but not two.
	hidden **corev1.Secret
}

func keyOf(secret *corev1.Secret) Key { return Key{&secret} }

func (k Key) secret() *corev1.Secret { return *k.hidden }

// Name is the name of the Secret.
func (k Key) Name() string { return k.secret().Name }

// Marked reports whether the key was handed out to the instance.
func (k Key) Marked(id instance.ID) bool { return k.secret().Annotations[handedOutTo] == string(id) }

// Joined reports whether the Node of the key's holder was Ready once.
func (k Key) Joined() bool { return k.secret().Annotations[joinedAt] != "" }

// Reveal returns the wg-quick configuration, private key and all.
func (k Key) Reveal() []byte { return k.secret().Data[ConfigKey] }

// String returns the name of the Secret, and nothing of its content.
func (k Key) String() string { return k.secret().Name }

// Format makes every verb of package fmt print what String returns.
func (k Key) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, k.String()) }

// LogValue makes slog print what String returns.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText makes encoding/json and others write what String returns.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// heldBy reports whether the key is the instance's: the label names it, and the
// key was not handed out to another one.
func heldBy(object metav1.Object, id instance.ID) bool {
	_, isLost := lost(object)
	return object.GetLabels()[InstanceLabel] == string(id) && !isLost
}

// free reports whether nobody holds the key. A key whose label was emptied by
// hand is not free while an annotation still names its holder.
func free(object metav1.Object) bool {
	holder, pooled := object.GetLabels()[InstanceLabel]
	return pooled && holder == "" && object.GetAnnotations()[allocatedTo] == "" && object.GetAnnotations()[handedOutTo] == ""
}

// lost reports the instance that the annotations name when the label does not:
// a hand emptied, removed or changed it. Whom a key was handed out to counts for
// more than any label: the key may be in use there.
func lost(object metav1.Object) (instance.ID, bool) {
	label := object.GetLabels()[InstanceLabel]
	if id, err := instance.ParseID(object.GetAnnotations()[handedOutTo]); err == nil {
		if label == string(id) {
			return "", false
		}
		return id, true
	}
	if label != "" {
		return "", false
	}
	id, err := instance.ParseID(object.GetAnnotations()[allocatedTo])
	return id, err == nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// version is the Secret's resourceVersion; empty when there is no Secret.
func (k Key) version() string {
	if k == (Key{}) {
		return ""
	}
	return k.secret().ResourceVersion
}
