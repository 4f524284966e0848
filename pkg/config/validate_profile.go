package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func (p *problems) profiles(c *Config) {
	if len(c.Profiles) == 0 {
		p.addf("profiles", "has no entry, so no instance would be ours: write at least one profile")
	}
	seen := map[string]int{}
	for i, profile := range c.Profiles {
		path := index("profiles", i)
		p.dnsLabel(path+".name", profile.Name)
		if earlier, twice := seen[profile.Name]; twice && profile.Name != "" {
			p.addf(path+".name", "%q is the name of profiles[%d] too", clip(profile.Name), earlier)
		} else {
			seen[profile.Name] = i
		}
		p.selector(path, profile)
		p.bootstrapToken(path+".bootstrapToken", profile.BootstrapToken)
		p.approvable(path+".bootstrapToken.extraGroups", c, profile)
		if _, err := labels.Parse(profile.WireGuard.KeySelector); err != nil {
			p.addf(path+".wireguard.keySelector", "is no label selector: %s", err)
		}
		p.node(path+".node", profile.Node, c.Artifacts.Kubeadm.APIVersion)
	}
}

func (p *problems) selector(path string, profile Profile) {
	switch {
	case profile.MatchAll && len(profile.Selector) > 0:
		p.addf(path+".matchAll", "is true beside a selector: remove one of the two")
		return
	case !profile.MatchAll && len(profile.Selector) == 0:
		p.addf(path+".selector", "is empty: write conditions, or matchAll: true for every instance of the region")
		return
	}
	for i, c := range profile.Selector {
		at := index(path+".selector", i)
		if c.Key == "" {
			p.addf(at+".key", "is empty: want the tag's key")
			continue
		}
		// One at a time, so that our path says which.
		if _, err := instance.NewSelector([]instance.Condition{instance.Condition(c)}); err != nil {
			p.addf(at, "%s", reason(err))
		}
	}
}

// reason is the selector's error without its own idea of where.
func reason(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func (p *problems) bootstrapToken(path string, b BootstrapToken) {
	p.duration(path+".ttl", b.TTL, 10*time.Minute, 24*time.Hour,
		"less may end before cloud-init has run and kubeadm has joined; "+
			"a longer life is no use: tokens of instances that have not joined are renewed")
	seen := map[string]bool{}
	for i, group := range b.ExtraGroups {
		at := index(path+".extraGroups", i)
		p.group(at, group)
		if seen[group] {
			p.addf(at, "%q is written twice", clip(group))
		}
		seen[group] = true
	}
}

func (p *problems) group(path, group string) {
	if err := bootstraputil.ValidateBootstrapGroupName(group); err != nil {
		p.addf(path, "%q is no group of bootstrap tokens: want system:bootstrappers: and lower-case letters, digits, : and -", clip(group))
	}
}

// approvable asks that somebody approves the certificate requests of a profile's
// instances.
func (p *problems) approvable(path string, c *Config, profile Profile) {
	groups := c.TokenGroups(profile)
	if c.Certificates.Approve && !slices.Contains(groups, c.Certificates.Group) && !slices.Contains(groups, kubeadmGroup) {
		p.addf(path, "lacks certificates.group (%s), so nobody would approve what its instances ask for: add it, or leave extraGroups out",
			clip(c.Certificates.Group))
	}
}
