package artifact

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// joinConfiguration is the part of kubeadm's type of that name that is used
// here. kubeadm decodes strictly: a field it does not know fails the join.
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	Discovery        discovery        `json:"discovery"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
}

type discovery struct {
	File              fileDiscovery `json:"file"`
	TLSBootstrapToken string        `json:"tlsBootstrapToken"`
}

type fileDiscovery struct {
	KubeConfigPath string `json:"kubeConfigPath"`
}

type nodeRegistration struct {
	Name      string  `json:"name"`
	CRISocket string  `json:"criSocket"`
	Taints    []taint `json:"taints"`
	// KubeletExtraArgs is what kubeletExtraArgs returns.
	KubeletExtraArgs any `json:"kubeletExtraArgs"`
}

type taint struct {
	Key    string             `json:"key"`
	Value  string             `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect"`
}

// The zone is part of the provider id, which a Node never changes: rather no
// join than one with a wrong provider id.
var errBadZone = errors.New("the availability zone recorded for the instance cannot be used")

// renderJoinConfiguration writes the JoinConfiguration for the holder of g.
func renderJoinConfiguration(g lifecycle.Grant, s NodeSettings, cfg Config) ([]byte, error) {
	join, err := newJoinConfiguration(g, s, cfg.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("join configuration: %w", err)
	}
	rendered, err := yaml.Marshal(join)
	if err != nil {
		return nil, fmt.Errorf("join configuration: %w", err)
	}
	return rendered, nil
}

func newJoinConfiguration(g lifecycle.Grant, s NodeSettings, cfg Config) (joinConfiguration, error) {
	if err := s.validateFields(); err != nil {
		return joinConfiguration{}, err
	}
	name, err := NodeName(s, g)
	if err != nil {
		return joinConfiguration{}, err
	}
	own, err := ownArgs(g, s)
	if err != nil {
		return joinConfiguration{}, err
	}
	return joinAs(name, own, g.Token, s, cfg)
}

// joinAs returns what lets the bearer of the token join as the Node of that name.
// own are the kubelet's flags that come before those of the settings.
func joinAs(name string, own []Arg, token bootstraptoken.Token, s NodeSettings, cfg Config) (joinConfiguration, error) {
	if err := cfg.Validate(); err != nil {
		return joinConfiguration{}, err
	}
	if err := validateToken(token); err != nil {
		return joinConfiguration{}, err
	}
	args, err := kubeletExtraArgs(cfg.APIVersion, append(own, s.KubeletExtraArgs...))
	if err != nil {
		return joinConfiguration{}, err
	}
	return joinConfiguration{
		APIVersion: "kubeadm.k8s.io/" + cfg.APIVersion,
		Kind:       "JoinConfiguration",
		Discovery: discovery{
			File:              fileDiscovery{KubeConfigPath: cfg.DiscoveryFile},
			TLSBootstrapToken: token.Reveal(),
		},
		NodeRegistration: nodeRegistration{
			Name: name, CRISocket: s.criSocket(), Taints: newTaints(s.Taints), KubeletExtraArgs: args,
		},
	}, nil
}

// ownArgs returns the kubelet's flags that follow from the instance.
func ownArgs(g lifecycle.Grant, s NodeSettings) ([]Arg, error) {
	if !validZone(g.Zone) {
		return nil, errBadZone
	}
	nodeIP, err := interfaceAddress(g.WireGuardConfig)
	if err != nil {
		return nil, err
	}
	labels, err := nodeLabels(s, g)
	if err != nil {
		return nil, err
	}
	return []Arg{
		{Name: "provider-id", Value: g.ProviderID()},
		{Name: "node-ip", Value: nodeIP.String()},
		{Name: "node-labels", Value: joinLabels(labels)},
	}, nil
}

// newTaints returns an empty list for none, never null: null leaves the choice
// to kubeadm.
func newTaints(taints []corev1.Taint) []taint {
	list := make([]taint, 0, len(taints))
	for _, t := range taints {
		list = append(list, taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return list
}
