package ec2lookup

import (
	"context"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Matching returns the instances that s matches and that are pending or
// running, each once, in EC2's order. Just launched ones may be missing.
func (l *Lookup) Matching(ctx context.Context, s instance.Selector) ([]instance.Instance, error) {
	if !s.MatchesAll() && len(s.Conditions()) == 0 {
		return nil, nil // the zero Selector; without filters EC2 would send all
	}
	var matching []instance.Instance
	seen := map[instance.ID]bool{}
	err := l.describe(ctx, filters(s), func(i instance.Instance) {
		if i.State.Starting() && s.Matches(i.Tags) && !seen[i.ID] {
			seen[i.ID] = true
			matching = append(matching, i)
		}
	})
	if err != nil {
		return nil, err
	}
	return matching, nil
}
