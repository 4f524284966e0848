package config

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nameFields are what a node's name can be made of.
type nameFields struct {
	InstanceID, PrivateDNSName, Zone, InstanceType, Profile string
}

// Two instances that could be each other's neighbours.
var (
	oneInstance = nameFields{"i-0123456789abcdef0", "ip-10-0-0-1.ec2.internal", "us-east-1a", "t3.small", "worker"}
	another     = nameFields{"i-0123456789abcdef1", "ip-10-0-0-2.ec2.internal", "us-east-1a", "t3.small", "worker"}
)

// nameTemplate tries the template on two instances, which must get two names.
func (p *problems) nameTemplate(path, text string) {
	const known = "the fields are .InstanceID, .PrivateDNSName, .Zone, .InstanceType, .Profile"
	one, err := nodeName(text, oneInstance)
	if err != nil {
		p.addf(path, "%s; %s", err, known)
		return
	}
	other, err := nodeName(text, another)
	switch {
	case err != nil:
		p.addf(path, "%s; %s", err, known)
	case one == other:
		p.addf(path, "gives two instances the same name, %q, and kubeadm refuses the second: use {{.InstanceID}}", clip(one))
	}
	if wrong := validation.IsDNS1123Subdomain(one); len(wrong) > 0 {
		p.addf(path, "gives the name %q: %s", clip(one), strings.Join(wrong, "; "))
	}
}

func nodeName(text string, fields nameFields) (string, error) {
	t, err := template.New("nameTemplate").Parse(text)
	if err != nil {
		return "", fmt.Errorf("is no template: %w", err)
	}
	if t.Tree == nil || !bounded(t.Root) {
		return "", errors.New("must not have range, template, block or define")
	}
	var name strings.Builder
	if err := t.Execute(&name, fields); err != nil {
		return "", fmt.Errorf("cannot be carried out: %w", err)
	}
	return name.String(), nil
}

// bounded reports whether a template has no loops and calls no other: it would
// run in the request of every instance.
func bounded(list *parse.ListNode) bool {
	if list == nil {
		return true
	}
	for _, n := range list.Nodes {
		ok := true
		switch n := n.(type) {
		case *parse.TextNode, *parse.ActionNode, *parse.CommentNode:
		case *parse.IfNode:
			ok = bounded(n.List) && bounded(n.ElseList)
		case *parse.WithNode:
			ok = bounded(n.List) && bounded(n.ElseList)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}
