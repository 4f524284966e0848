package config

import (
	"fmt"
	"slices"
	"time"
)

// doubts are about a valid configuration that may not do what was meant.
func doubts(c *Config) []string {
	var d []string
	if c.Queue.Region != c.AWS.Region {
		d = append(d, fmt.Sprintf("aws.region: instances are looked up in %s, but the queue is in %s",
			c.AWS.Region, c.Queue.Region))
	}
	if c.Reconcile.GoneGrace < time.Minute {
		d = append(d, "reconcile.goneGrace: below 1m EC2's delay may pass for an instance that is gone")
	}
	if !c.Artifacts.Identity.Required {
		d = append(d, "artifacts.identity.required: false hands key and token to whoever knows an instance id: "+
			"keep the endpoint behind another guard")
	}
	if c.Artifacts.Identity.Required && len(c.Artifacts.Identity.Accounts) == 0 {
		d = append(d, "artifacts.identity.accounts: empty, so that instances of any AWS account pass the first checks and make work: "+
			"list your own")
	}
	if c.Artifacts.TLS.CertFile == "" && len(c.Artifacts.TrustedProxies) == 0 {
		d = append(d, "artifacts.tls: plain HTTP shows keys and tokens to the network: name certFile and keyFile, "+
			"or keep the endpoint behind a proxy that ends TLS and name its network in artifacts.trustedProxies")
	}
	d = append(d, approvalDoubts(c)...)
	d = append(d, renewalDoubts(c)...)
	return append(d, profileDoubts(c.Profiles)...)
}

// approvalDoubts names the profiles of which a stolen token can become any Node.
func approvalDoubts(c *Config) []string {
	var d []string
	for i, p := range c.Profiles {
		if c.Certificates.Approve && slices.Contains(c.TokenGroups(p), kubeadmGroup) {
			d = append(d, fmt.Sprintf("profiles[%d].bootstrapToken.extraGroups: requests of %s are approved automatically, "+
				"whatever Node they name: remove it", i, kubeadmGroup))
		}
	}
	return d
}

// renewalDoubts names the profiles whose tokens may expire before a pass renews
// them.
func renewalDoubts(c *Config) []string {
	var d []string
	for i, p := range c.Profiles {
		if 2*c.Reconcile.Interval >= p.BootstrapToken.TTL {
			d = append(d, fmt.Sprintf("profiles[%d].bootstrapToken.ttl: %s may end before a token is renewed: "+
				"keep it above twice reconcile.interval (%s)", i, p.BootstrapToken.TTL, c.Reconcile.Interval))
		}
	}
	return d
}

func profileDoubts(profiles []Profile) []string {
	var d []string
	for i, p := range profiles {
		if matchesUntagged(p) {
			d = append(d, fmt.Sprintf("profiles[%d].selector: matches instances that are too young to have tags: "+
				"add a condition with values or exists", i))
		}
		if p.MatchAll && i+1 < len(profiles) {
			return append(d, fmt.Sprintf("profiles[%d]: never reached, as profiles[%d] matches everything", i+1, i))
		}
	}
	return d
}

// matchesUntagged reports whether a selector asks for no tag at all.
func matchesUntagged(p Profile) bool {
	s, err := p.InstanceSelector()
	return err == nil && !p.MatchAll && s.Matches(nil)
}
