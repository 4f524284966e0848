package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// lifecycleProfiles turns the configured profiles into what decides who gets a
// key and a token. nodeName tells how an instance's Node is called.
func lifecycleProfiles(cfg *config.Config, nodeName func(lifecycle.Grant) (string, error)) ([]lifecycle.Profile, error) {
	profiles := make([]lifecycle.Profile, len(cfg.Profiles))
	for i, p := range cfg.Profiles {
		selector, err := p.InstanceSelector()
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		keys, err := labels.Parse(p.WireGuard.KeySelector)
		if err != nil {
			return nil, fmt.Errorf("profile %s: key selector: %w", p.Name, err)
		}
		profiles[i] = lifecycle.Profile{
			Name:     p.Name,
			Selector: selector,
			Token: bootstraptoken.Settings{
				TTL:         p.BootstrapToken.TTL,
				ExtraGroups: cfg.TokenGroups(p),
				Signing:     p.BootstrapToken.Signing,
			},
			Keys:         keys,
			Restrictions: node.Restrictions{Labels: p.Node.RestrictedLabels, Taints: taints(p.Node.RestrictedTaints)},
			NodeName:     nodeName,
		}
	}
	return profiles, nil
}

// nodeSettings turns the configured profiles into what their nodes are told.
func nodeSettings(configured []config.Profile) (map[string]artifact.NodeSettings, error) {
	settings := make(map[string]artifact.NodeSettings, len(configured))
	for _, p := range configured {
		s := nodeSettingsOf(p.Node)
		if err := s.Validate(); err != nil {
			return nil, fmt.Errorf("profile %s: %w", p.Name, err)
		}
		settings[p.Name] = s
	}
	return settings, nil
}

func nodeSettingsOf(n config.Node) artifact.NodeSettings {
	s := artifact.NodeSettings{
		NameTemplate: n.NameTemplate,
		Labels:       n.Labels,
		Taints:       taints(n.Taints),
		CRISocket:    n.CRISocket,
	}
	for _, a := range n.KubeletExtraArgs {
		s.KubeletExtraArgs = append(s.KubeletExtraArgs, artifact.Arg(a))
	}
	return s
}

func taints(configured []config.Taint) []corev1.Taint {
	var taints []corev1.Taint
	for _, t := range configured {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return taints
}
