package artifact

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// maxNodeName is the length of a label value, not of a DNS name: the kubelet
// repeats the node's name in the label kubernetes.io/hostname, and the API
// server refuses the Node when that is too long.
const maxNodeName = validation.LabelValueMaxLength

// nodeNameFields is what a node-name template can use.
type nodeNameFields struct {
	InstanceID, PrivateDNSName, Zone, InstanceType, Profile string
}

var errEmptyNodeName = errors.New("the node-name template renders to nothing")

// NodeName returns the name of the instance's Node: the settings' template
// filled in, or the instance id without one. It is a DNS-1123 subdomain of at
// most 63 characters.
func NodeName(s NodeSettings, g lifecycle.Grant) (string, error) {
	name, err := expandNodeName(s.NameTemplate, g)
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", errEmptyNodeName
	}
	if err := validateNodeName(name); err != nil {
		return "", err
	}
	return name, nil
}

func validateNodeName(name string) error {
	if len(name) > maxNodeName {
		return fmt.Errorf("node name %.64q has %d characters, at most %d are allowed", name, len(name), maxNodeName)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("node name %q: %s", name, problems[0])
	}
	return nil
}

func expandNodeName(text string, g lifecycle.Grant) (string, error) {
	if text == "" {
		return string(g.Instance), nil
	}
	tmpl, err := template.New("node name").Parse(text)
	if err != nil {
		return "", fmt.Errorf("node-name template: %w", err)
	}
	var b strings.Builder
	// Fields are copied one by one, so no template can reach the grant's secrets.
	err = tmpl.Execute(&b, nodeNameFields{
		InstanceID:     string(g.Instance),
		PrivateDNSName: g.PrivateDNSName,
		Zone:           g.Zone,
		InstanceType:   g.InstanceType,
		Profile:        g.Profile,
	})
	if err != nil {
		return "", fmt.Errorf("node-name template: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}
