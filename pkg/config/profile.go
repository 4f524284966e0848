package config

import (
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Profile says which instances are ours and what they get.
type Profile struct {
	// Name is a DNS label that no other profile has.
	Name string `yaml:"name"`
	// Selector holds conditions on the instance's tags; all must hold.
	Selector []Condition `yaml:"selector"`
	// MatchAll stands instead of a selector: every instance matches.
	MatchAll       bool           `yaml:"matchAll"`
	BootstrapToken BootstrapToken `yaml:"bootstrapToken"`
	WireGuard      WireGuard      `yaml:"wireguard"`
	Node           Node           `yaml:"node"`
}

// Condition is about one EC2 tag. Patterns are EC2's: * is any run of
// characters, ? any one.
type Condition struct {
	Key       string   `yaml:"key"`
	Values    []string `yaml:"values"`
	NotValues []string `yaml:"notValues"`
	Exists    bool     `yaml:"exists"`
	Absent    bool     `yaml:"absent"`
}

// BootstrapToken is about the tokens made for a profile's instances.
type BootstrapToken struct {
	TTL time.Duration `yaml:"ttl"`
	// ExtraGroups are groups beside system:bootstrappers that the token's
	// bearer is in. Nil leaves them to Config.TokenGroups.
	ExtraGroups []string `yaml:"extraGroups"`
	// Signing lets the token sign cluster-info, for token discovery. The
	// artifacts use file discovery, which needs no such right.
	Signing bool `yaml:"signing"`
}

// WireGuard is about the keys for a profile's instances.
type WireGuard struct {
	// KeySelector is a Kubernetes label selector that narrows the pool.
	// Empty means every key.
	KeySelector string `yaml:"keySelector"`
}

// Node is what a profile's instances tell the kubelet at their join.
type Node struct {
	// NameTemplate is a text/template for the Node's name with the fields
	// InstanceID, PrivateDNSName (may be empty), Zone, InstanceType, Profile.
	NameTemplate string            `yaml:"nameTemplate"`
	Labels       map[string]string `yaml:"labels"`
	Taints       []Taint           `yaml:"taints"`
	// RestrictedLabels and RestrictedTaints are given to the Node by the program
	// once it is Ready, and kept there: the kubelet may not choose them.
	RestrictedLabels map[string]string `yaml:"restrictedLabels"`
	RestrictedTaints []Taint           `yaml:"restrictedTaints"`
	KubeletExtraArgs []Arg             `yaml:"kubeletExtraArgs"`
	// CRISocket is the URL of the container runtime's socket.
	CRISocket string `yaml:"criSocket"`
}

// Taint is a Kubernetes taint.
type Taint struct {
	Key    string `yaml:"key"`
	Value  string `yaml:"value"`
	Effect string `yaml:"effect"`
}

// Arg is a kubelet flag, its name without dashes.
type Arg struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// TokenGroups returns the extra groups of a profile's tokens: what the profile
// says, else the group whose certificate requests the program approves, else
// kubeadm's.
func (c *Config) TokenGroups(p Profile) []string {
	switch {
	case p.BootstrapToken.ExtraGroups != nil:
		return p.BootstrapToken.ExtraGroups
	case c.Certificates.Approve:
		return []string{c.Certificates.Group}
	default:
		return []string{kubeadmGroup}
	}
}

// InstanceSelector returns what decides whether an instance is the profile's.
func (p Profile) InstanceSelector() (instance.Selector, error) {
	if p.MatchAll {
		return instance.MatchAll(), nil
	}
	conditions := make([]instance.Condition, len(p.Selector))
	for i, c := range p.Selector {
		conditions[i] = instance.Condition(c)
	}
	return instance.NewSelector(conditions)
}
