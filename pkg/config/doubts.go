package config

import (
	"fmt"
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
	return append(d, profileDoubts(c.Profiles)...)
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
