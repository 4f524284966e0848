package config

import "time"

// Artifacts is about the endpoint that instances fetch their artifacts from.
type Artifacts struct {
	// Address is host:port to listen on.
	Address  string   `yaml:"address"`
	TLS      TLS      `yaml:"tls"`
	Kubeadm  Kubeadm  `yaml:"kubeadm"`
	Identity Identity `yaml:"identity"`
}

// TLS names PEM files. Both empty means plain HTTP, for use behind an Ingress.
type TLS struct {
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// Kubeadm is about the documents kubeadm reads on the instance.
type Kubeadm struct {
	// APIVersion is v1beta4 or v1beta3, without the group.
	APIVersion string `yaml:"apiVersion"`
	// Server replaces the API server's URL of cluster-info. Empty keeps it.
	Server string `yaml:"server"`
	// TokenInKubeconfig puts the bootstrap token into the discovery
	// kubeconfig, for API servers without anonymous access.
	TokenInKubeconfig bool `yaml:"tokenInKubeconfig"`
	// DiscoveryFile is where the instance stores the discovery kubeconfig.
	DiscoveryFile string `yaml:"discoveryFile"`
}

// Identity is about how a caller proves which instance it is.
type Identity struct {
	// Required refuses callers without a signed instance identity document.
	Required bool `yaml:"required"`
	// Accounts are the AWS account ids that documents may come from. Empty
	// means any.
	Accounts []string `yaml:"accounts"`
	// Regions are the AWS regions that documents may come from. Empty means
	// any.
	Regions []string `yaml:"regions"`
	// MaxAge is how long after the instance's start its document is accepted.
	MaxAge time.Duration `yaml:"maxAge"`
	// ExtraCertificates is the path of a PEM file with AWS's certificates of
	// regions that the program does not know. Empty means none.
	ExtraCertificates string `yaml:"extraCertificates"`
}
