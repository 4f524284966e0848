package config

import (
	"regexp"
	"time"
)

// apiVersions are the versions of kubeadm's configuration that can be written.
var apiVersions = []string{"v1beta4", "v1beta3"}

var accountPattern = regexp.MustCompile(`^[0-9]{12}$`)

func (p *problems) artifacts(a Artifacts) {
	p.address("artifacts.address", a.Address)
	if (a.TLS.CertFile == "") != (a.TLS.KeyFile == "") {
		p.addf("artifacts.tls", "has one of certFile and keyFile: write both, or none for plain HTTP behind an Ingress")
	}
	p.oneOf("artifacts.kubeadm.apiVersion", a.Kubeadm.APIVersion, apiVersions)
	if a.Kubeadm.Server != "" {
		p.httpURL("artifacts.kubeadm.server", a.Kubeadm.Server, "https://10.99.0.1:6443", "https")
	}
	p.absolute("artifacts.kubeadm.discoveryFile", a.Kubeadm.DiscoveryFile)
	p.identity(a.Identity)
}

func (p *problems) identity(i Identity) {
	for n, account := range i.Accounts {
		if !accountPattern.MatchString(account) {
			p.addf(index("artifacts.identity.accounts", n),
				"%q is no AWS account id: want 12 digits, leading zeros included", clip(account))
		}
	}
	for n, region := range i.Regions {
		p.region(index("artifacts.identity.regions", n), region)
	}
	p.duration("artifacts.identity.maxAge", i.MaxAge, time.Minute, 168*time.Hour,
		"a document can be replayed as long as it is accepted")
	if i.ExtraCertificates != "" {
		p.absolute("artifacts.identity.extraCertificates", i.ExtraCertificates)
	}
}
