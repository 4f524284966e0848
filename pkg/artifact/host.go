package artifact

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Host is a machine that is not in EC2 and is to join.
type Host struct {
	// Name is its Node's; see ValidateHostName.
	Name  string
	Token bootstraptoken.Token
	// NodeIP is the address that its kubelet is told to use. The zero Addr leaves
	// that to the kubelet.
	NodeIP netip.Addr
}

// ValidateHostName returns why no host may have the name, or nil. An instance's
// id is refused: a Node of such a name is taken for the instance's.
func ValidateHostName(name string) error {
	if name == "" {
		return errors.New("a host needs a name")
	}
	if _, err := instance.ParseID(name); err == nil {
		return fmt.Errorf("node name %q is an EC2 instance id, which no host may have", name)
	}
	return validateNodeName(name)
}

// RenderHost writes the discovery kubeconfig and the join configuration of a
// host. Of the settings the name template is not used. Unlike for instances, the
// server is that of the cluster unless cfg says otherwise: cluster-info's is the
// one that machines at home reach.
func RenderHost(c Cluster, h Host, s NodeSettings, cfg Config) (kubeconfig, joinConfiguration []byte, err error) {
	cfg = cfg.withDefaults()
	if kubeconfig, err = renderKubeconfig(c, h.Token, cfg); err != nil {
		return nil, nil, err
	}
	join, err := newHostJoinConfiguration(h, s, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("join configuration: %w", err)
	}
	if joinConfiguration, err = yaml.Marshal(join); err != nil {
		return nil, nil, fmt.Errorf("join configuration: %w", err)
	}
	return kubeconfig, joinConfiguration, nil
}

func newHostJoinConfiguration(h Host, s NodeSettings, cfg Config) (joinConfiguration, error) {
	if err := ValidateHostName(h.Name); err != nil {
		return joinConfiguration{}, err
	}
	if err := s.validateFields(); err != nil {
		return joinConfiguration{}, err
	}
	var own []Arg
	if h.NodeIP.IsValid() {
		if h.NodeIP.Zone() != "" || !usableNodeIP(h.NodeIP) {
			return joinConfiguration{}, fmt.Errorf("node IP %s is no address that a kubelet can use", h.NodeIP)
		}
		own = append(own, Arg{Name: "node-ip", Value: h.NodeIP.String()})
	}
	labels := map[string]string{bootstraptoken.HostLabel: h.Name}
	maps.Copy(labels, s.Labels) // which cannot hold that one
	own = append(own, Arg{Name: "node-labels", Value: joinLabels(labels)})
	return joinAs(h.Name, own, h.Token, s, cfg)
}
