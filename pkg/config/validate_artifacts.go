package config

import (
	"net/netip"
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
	p.networks("artifacts.trustedProxies", a.TrustedProxies)
	p.limits(a.Limits)
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
	for n, file := range i.CertificateFiles() {
		at := index("artifacts.identity.extraCertificates", n)
		if file.Region != "" && !regionPattern.MatchString(file.Region) {
			p.addf(at, "%q is no AWS region: want REGION=PATH, or an absolute PATH for every region", clip(file.Region))
		}
		p.absolute(at, file.Path)
	}
	p.networks("artifacts.identity.networks", i.Networks)
}

func (p *problems) networks(path string, networks []string) {
	for n, network := range networks {
		prefix, err := netip.ParsePrefix(network)
		switch {
		case err != nil:
			p.addf(index(path, n), "%q is no network: want a CIDR such as 10.0.0.0/8 or 203.0.113.7/32", clip(network))
		case prefix.Addr().Is4In6() && prefix.Bits() >= 96:
			p.addf(index(path, n), "%q is IPv4 in IPv6: want %s", clip(network), netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96))
		case prefix != prefix.Masked():
			p.addf(index(path, n), "%q has bits after its mask: did you mean %s?", clip(network), prefix.Masked())
		}
	}
}

func (p *problems) limits(l Limits) {
	p.rate("artifacts.limits.perSource", l.PerSource)
	p.number("artifacts.limits.perSourceBurst", l.PerSourceBurst, 100000)
	p.rate("artifacts.limits.total", l.Total)
	p.number("artifacts.limits.totalBurst", l.TotalBurst, 100000)
}

func (p *problems) rate(path string, rate float32) {
	if !(rate > 0 && rate <= 100000) { // so written, it refuses NaN
		p.addf(path, "is %v: want more than 0 and at most 100000 requests a second", rate)
	}
}
