// Package keys makes the WireGuard key Secrets that an operator would make.
package keys

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The contract with the operator, written out here on purpose: a test that took
// it from the program could not notice a change.
const (
	Type          = "dynk8s.du5t1n.me/wireguard-key"
	InstanceLabel = "dynk8s.du5t1n.me/ec2-instance-id"
	ConfigKey     = "wireguard-config"
)

// Server is the other end of the tunnel.
type Server struct {
	PublicKey string // base64
	Endpoint  string // host:port
}

// Key is a WireGuard key that was put into the pool.
type Key struct {
	Name       string // of the Secret
	PrivateKey string // base64, as in the configuration
	PublicKey  string // base64, for the server
	Address    string // of the VPN interface
	Config     string // the whole wg-quick configuration
}

// NewServer makes the private key, base64, of a server that listens on the
// endpoint.
func NewServer(endpoint string) (s Server, privateKey string, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Server{}, "", err
	}
	return Server{PublicKey: encode(key.PublicKey().Bytes()), Endpoint: endpoint}, encode(key.Bytes()), nil
}

func encode(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

// New makes the nth key, for n from 1 to 65000, with the address 10.99.x.y, for
// a server that does not exist.
func New(n int) (Key, error) {
	server, _, err := NewServer("vpn.example.org:51820")
	if err != nil {
		return Key{}, err
	}
	return NewFor(n, server)
}

// NewFor makes the nth key for a server.
func NewFor(n int, server Server) (Key, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	k := Key{
		Name:       fmt.Sprintf("wireguard-key-%02d", n),
		PrivateKey: encode(private.Bytes()),
		PublicKey:  encode(private.PublicKey().Bytes()),
		Address:    fmt.Sprintf("10.99.%d.%d", n/250, n%250+2),
	}
	k.Config = fmt.Sprintf(`[Interface]
PrivateKey = %s
Address = %s/16

[Peer]
PublicKey = %s
Endpoint = %s
AllowedIPs = 10.99.0.0/16
PersistentKeepalive = 25
`, k.PrivateKey, k.Address, server.PublicKey, server.Endpoint)
	return k, nil
}

// Secret is the key's Secret, free.
func (k Key) Secret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.Name, Namespace: namespace, Labels: map[string]string{InstanceLabel: ""},
		},
		Type: Type,
		Data: map[string][]byte{ConfigKey: []byte(k.Config)},
	}
}

// Add makes keys first to last and puts them into the pool.
func Add(ctx context.Context, client kubernetes.Interface, namespace string, first, last int) ([]Key, error) {
	var added []Key
	for n := first; n <= last; n++ {
		k, err := New(n)
		if err != nil {
			return nil, err
		}
		if _, err := client.CoreV1().Secrets(namespace).Create(ctx, k.Secret(namespace), metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		added = append(added, k)
	}
	return added, nil
}
