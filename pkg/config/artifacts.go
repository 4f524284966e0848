package config

import (
	"strings"
	"time"
)

// Artifacts is about the endpoint that instances fetch their artifacts from.
type Artifacts struct {
	// Address is host:port to listen on.
	Address string `yaml:"address"`
	TLS     TLS    `yaml:"tls"`
	// TrustedProxies are the networks, as CIDRs, of proxies whose
	// X-Forwarded-For is believed. Empty believes nobody.
	TrustedProxies []string `yaml:"trustedProxies"`
	Limits         Limits   `yaml:"limits"`
	Kubeadm        Kubeadm  `yaml:"kubeadm"`
	Identity       Identity `yaml:"identity"`
}

// Limits bound the requests to the artifact endpoint: rates in requests a
// second, and how many may come at once above them.
type Limits struct {
	PerSource      float32 `yaml:"perSource"`
	PerSourceBurst int     `yaml:"perSourceBurst"`
	Total          float32 `yaml:"total"`
	TotalBurst     int     `yaml:"totalBurst"`
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
	// ExtraCertificates are PEM files with AWS's certificates of regions that
	// the program does not know, each as REGION=PATH, or as PATH for every
	// region. Empty means none.
	ExtraCertificates []string `yaml:"extraCertificates"`
	// PublicAddress also asks that the request comes from the instance's own
	// public address, and Networks, CIDRs, that it comes from one of them. With
	// both, either will do.
	PublicAddress bool     `yaml:"publicAddress"`
	Networks      []string `yaml:"networks"`
}

// ExtraCertificate is one entry of Identity.ExtraCertificates. Region is empty
// for a file that is for every region.
type ExtraCertificate struct{ Region, Path string }

// CertificateFiles returns the entries of ExtraCertificates.
func (i Identity) CertificateFiles() []ExtraCertificate {
	files := make([]ExtraCertificate, len(i.ExtraCertificates))
	for n, entry := range i.ExtraCertificates {
		region, path, named := strings.Cut(entry, "=")
		if !named || strings.HasPrefix(entry, "/") {
			region, path = "", entry
		}
		files[n] = ExtraCertificate{Region: region, Path: path}
	}
	return files
}
