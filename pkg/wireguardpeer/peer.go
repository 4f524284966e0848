package wireguardpeer

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// Peer is one key of the pool. It prints nothing secret.
type Peer struct {
	// Name is that of the key Secret.
	Name string
	// PublicKey is base64.
	PublicKey string
	Address   netip.Addr

	plan      Plan
	private   secret
	preshared secret // zero: none
}

// Generate makes the keys of a plan, or returns what is wrong with it.
func Generate(p Plan) ([]Peer, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	addresses, err := p.addresses()
	if err != nil {
		return nil, err
	}
	peers := make([]Peer, len(addresses))
	for i, address := range addresses {
		peer := Peer{Name: p.name(p.First + i), Address: address, plan: p}
		if peer.private, peer.PublicKey, err = newKeyPair(); err != nil {
			return nil, err
		}
		if p.Preshared {
			peer.preshared = newPresharedKey()
		}
		peers[i] = peer
	}
	return peers, nil
}

func (p Peer) host() netip.Prefix { return netip.PrefixFrom(p.Address, p.Address.BitLen()) }

// Config is the peer's wg-quick configuration. It is secret.
func (p Peer) Config() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s = %v\n", name, value) }
	b.WriteString("[Interface]\n")
	line("PrivateKey", p.private.reveal())
	// Alone: with the network's prefix a CNI would take all peers for neighbours,
	// to whom pods' packets can go as they are.
	line("Address", p.host())
	if len(p.plan.DNS) > 0 {
		line("DNS", strings.Join(p.plan.DNS, ", "))
	}
	if p.plan.MTU > 0 {
		line("MTU", p.plan.MTU)
	}
	b.WriteString("\n[Peer]\n")
	line("PublicKey", p.plan.ServerPublicKey)
	if p.preshared.text != nil {
		line("PresharedKey", p.preshared.reveal())
	}
	line("Endpoint", p.plan.Endpoint)
	networks := make([]string, len(p.plan.AllowedIPs))
	for i, allowed := range p.plan.AllowedIPs {
		networks[i] = allowed.String()
	}
	line("AllowedIPs", strings.Join(networks, ", "))
	if p.plan.Keepalive > 0 {
		line("PersistentKeepalive", p.plan.Keepalive)
	}
	return b.String()
}

// keySecret is a Secret as it is written: stringData can be read and edited.
type keySecret struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        keyMetadata       `json:"metadata"`
	Type            corev1.SecretType `json:"type"`
	StringData      map[string]string `json:"stringData"`
}

type keyMetadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels"`
}

// Secrets are the key Secrets of the peers, free, as YAML documents. They are
// secret.
func Secrets(peers []Peer) ([]byte, error) {
	var b bytes.Buffer
	for _, p := range peers {
		document, err := yaml.Marshal(keySecret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			Metadata: keyMetadata{
				Name: p.Name, Namespace: p.plan.Namespace,
				Labels: map[string]string{wireguardkey.InstanceLabel: ""},
			},
			Type:       wireguardkey.SecretType,
			StringData: map[string]string{wireguardkey.ConfigKey: p.Config()},
		})
		if err != nil {
			return nil, fmt.Errorf("key Secret %s: %w", p.Name, err)
		}
		b.WriteString("---\n")
		b.Write(document)
	}
	return b.Bytes(), nil
}

// ServerSections are the sections by which the server knows the peers, for its
// wg-quick configuration. They are secret if the peers have preshared keys.
func ServerSections(peers []Peer) []byte {
	var b bytes.Buffer
	for _, p := range peers {
		fmt.Fprintf(&b, "\n# %s\n[Peer]\nPublicKey = %s\n", p.Name, p.PublicKey)
		if p.preshared.text != nil {
			fmt.Fprintf(&b, "PresharedKey = %s\n", p.preshared.reveal())
		}
		fmt.Fprintf(&b, "AllowedIPs = %s\n", p.host())
	}
	return b.Bytes()
}
