package artifact

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// DefaultCRISocket is CRI-O's.
const DefaultCRISocket = "unix:///var/run/crio/crio.sock"

// NodeSettings is what the nodes of one profile have in common. The zero value
// is usable: a node named by its instance id, without taints, over CRI-O.
type NodeSettings struct {
	// NameTemplate is a text/template over InstanceID, PrivateDNSName, Zone,
	// InstanceType and Profile. Empty means {{.InstanceID}}.
	NameTemplate string
	// Labels are added to those that say where the instance is, and win over
	// them.
	Labels map[string]string
	// Taints are those the node registers with.
	Taints []corev1.Taint
	// KubeletExtraArgs are further flags of the kubelet.
	KubeletExtraArgs []Arg
	// CRISocket is the container runtime's, as unix:// URL. Empty means
	// DefaultCRISocket.
	CRISocket string
}

// Arg is one flag of the kubelet, its name without the leading dashes.
type Arg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Two instances that share nothing but what every instance of a profile may.
var sampleGrants = [2]lifecycle.Grant{
	{
		Instance: "i-0123456789abcdef0", Profile: "sample", Zone: "us-east-2a",
		PrivateDNSName: "ip-10-0-0-1.us-east-2.compute.internal", InstanceType: "t3.small",
	},
	{
		Instance: "i-fedcba98765432101", Profile: "sample", Zone: "us-east-2a",
		PrivateDNSName: "ip-10-1-2-3.us-east-2.compute.internal", InstanceType: "t3.small",
	},
}

var errSameName = errors.New("node-name template: all instances get one name: use {{.InstanceID}} or {{.PrivateDNSName}}")

// Validate returns an error that names the first setting with which no
// instance could join. Rendering with such settings fails, too.
func (s NodeSettings) Validate() error {
	if err := s.validateName(); err != nil {
		return err
	}
	return s.validateFields()
}

func (s NodeSettings) validateName() error {
	first, err := NodeName(s, sampleGrants[0])
	if err != nil {
		return err
	}
	second, err := NodeName(s, sampleGrants[1])
	if err != nil {
		return err
	}
	if first == second {
		return errSameName
	}
	return nil
}

// validateFields checks what does not depend on an instance.
func (s NodeSettings) validateFields() error {
	if err := validateLabels(s.Labels); err != nil {
		return err
	}
	if err := validateTaints(s.Taints); err != nil {
		return err
	}
	if err := validateArgs(s.KubeletExtraArgs); err != nil {
		return err
	}
	return validateCRISocket(s.criSocket())
}

func (s NodeSettings) criSocket() string {
	if s.CRISocket == "" {
		return DefaultCRISocket
	}
	return s.CRISocket
}

func validateCRISocket(socket string) error {
	u, err := url.Parse(socket)
	if err != nil || u.Scheme != "unix" || u.Host != "" || !path.IsAbs(u.Path) {
		return fmt.Errorf("CRI socket %.64q is no unix:// URL with an absolute path", socket)
	}
	return nil
}

var taintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
}

func validateTaints(taints []corev1.Taint) error {
	for i, t := range taints {
		if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
			return fmt.Errorf("taint %d: key %.64q: %s", i, t.Key, problems[0])
		}
		if problems := validation.IsValidLabelValue(t.Value); len(problems) > 0 {
			return fmt.Errorf("taint %d: value %.64q: %s", i, t.Value, problems[0])
		}
		if !slices.Contains(taintEffects, t.Effect) {
			return fmt.Errorf("taint %d: effect %.64q is not one of %v", i, t.Effect, taintEffects)
		}
		if slices.ContainsFunc(taints[:i], func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
			return fmt.Errorf("taint %d: %.64q with effect %s stands twice", i, t.Key, t.Effect)
		}
	}
	return nil
}
