package lifecycle

import (
	"context"
	"fmt"
)

// restrict gives the node of an instance the labels and taints of its profile
// that a kubelet may not be left to choose. A kubelet says itself whose node it
// is, so a node under another name than the instance's gets nothing.
func (l *Lifecycle) restrict(ctx context.Context, profile Profile, g Grant) error {
	if len(profile.Restrictions.Labels) == 0 && len(profile.Restrictions.Taints) == 0 {
		return nil
	}
	name, err := profile.nodeName(g)
	if err != nil {
		return fmt.Errorf("restrict node: %w", err)
	}
	if of, inEC2, found := l.nodes.InstanceOf(name); !found || !inEC2 || of != g.Instance {
		l.log.WarnContext(ctx, "node is not given its restricted labels and taints: it has not the name that its profile gives it",
			"instance", g.Instance, "expected", name, "profile", profile.Name)
		return nil
	}
	changed, err := l.nodes.Restrict(ctx, g.Instance, name, profile.Restrictions)
	if changed {
		l.log.InfoContext(ctx, "node given its restricted labels and taints", "instance", g.Instance, "node", name, "profile", profile.Name)
	}
	return err
}

func (p Profile) nodeName(g Grant) (string, error) {
	if p.NodeName == nil {
		return string(g.Instance), nil
	}
	return p.NodeName(g)
}
