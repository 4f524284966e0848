package config

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// instanceIDLabel is the label by which the program knows its own Nodes.
const instanceIDLabel = instance.Label

var taintEffects = []string{
	string(corev1.TaintEffectNoSchedule),
	string(corev1.TaintEffectPreferNoSchedule),
	string(corev1.TaintEffectNoExecute),
}

func (p *problems) node(path string, n Node, apiVersion string) {
	p.nameTemplate(path+".nameTemplate", n.NameTemplate)
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		p.label(path+".labels["+clip(key)+"]", key, n.Labels[key])
	}
	p.taints(path+".taints", n.Taints)
	for _, key := range slices.Sorted(maps.Keys(n.RestrictedLabels)) {
		p.restrictedLabel(path+".restrictedLabels["+clip(key)+"]", key, n)
	}
	p.taints(path+".restrictedTaints", n.RestrictedTaints)
	for i, t := range n.RestrictedTaints {
		if slices.ContainsFunc(n.Taints, func(o Taint) bool { return o.Key == t.Key && o.Effect == t.Effect && o.Value != t.Value }) {
			p.addf(index(path+".restrictedTaints", i), "has another value under taints: remove one of the two")
		}
	}
	p.kubeletArgs(path+".kubeletExtraArgs", n.KubeletExtraArgs, apiVersion)
	if u, err := url.Parse(n.CRISocket); err != nil || u.Scheme != "unix" || u.Host != "" || len(u.Path) < 2 {
		p.addf(path+".criSocket", "%q is no socket's URL: want the form unix:///var/run/crio/crio.sock", clip(n.CRISocket))
	}
}

func (p *problems) label(path, key, value string) {
	p.labelSyntax(path, key, value)
	switch {
	case key == instanceIDLabel, key == instance.HostLabel:
		p.addf(path, "is set by the program itself: remove it")
	case isKubernetesLabel(key) && !kubeletapis.IsKubeletLabel(key):
		p.addf(path, "a kubelet may not set this label on its own Node, so the join would fail: "+
			"write it under restrictedLabels, or use a name outside kubernetes.io and k8s.io or one under %s",
			strings.Join(kubeletapis.KubeletLabelNamespaces(), " or "))
	}
}

func (p *problems) restrictedLabel(path, key string, n Node) {
	p.labelSyntax(path, key, n.RestrictedLabels[key])
	if value, both := n.Labels[key]; both && value != n.RestrictedLabels[key] {
		p.addf(path, "has another value under labels: remove one of the two")
	}
	if key == instanceIDLabel || key == instance.HostLabel {
		p.addf(path, "is set by the program itself: remove it")
	}
}

func (p *problems) labelSyntax(path, key, value string) {
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		p.addf(path, "%q is no label key: %s", clip(key), strings.Join(wrong, "; "))
	}
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		p.addf(path, "%q is no label value: %s", clip(value), strings.Join(wrong, "; "))
	}
}

// isKubernetesLabel is the kubelet's own rule for which labels it looks at.
func isKubernetesLabel(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == reserved || strings.HasSuffix(prefix, "."+reserved) {
			return true
		}
	}
	return false
}

func (p *problems) taints(path string, taints []Taint) {
	seen := map[Taint]bool{}
	for i, t := range taints {
		at := index(path, i)
		p.labelSyntax(at, t.Key, t.Value)
		p.oneOf(at+".effect", t.Effect, taintEffects)
		same := Taint{Key: t.Key, Effect: t.Effect}
		if seen[same] {
			p.addf(at, "has key and effect of an earlier taint: a Node can have only one of them")
		}
		seen[same] = true
	}
}

// reservedArgs are kubelet flags that are ours or kubeadm's to set, and what to
// do instead.
var reservedArgs = map[string]string{
	"provider-id":                "it follows from the instance; remove it",
	"node-ip":                    "it is the address in the WireGuard configuration; remove it",
	"node-labels":                "use node.labels",
	"hostname-override":          "use node.nameTemplate",
	"register-with-taints":       "use node.taints",
	"container-runtime-endpoint": "use node.criSocket",
	"bootstrap-kubeconfig":       "kubeadm sets it; remove it",
	"kubeconfig":                 "kubeadm sets it; remove it",
	"config":                     "kubeadm sets it; remove it",
}

var argPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (p *problems) kubeletArgs(path string, args []Arg, apiVersion string) {
	seen := map[string]bool{}
	for i, arg := range args {
		at := index(path, i) + ".name"
		if mend, reserved := reservedArgs[arg.Name]; reserved {
			p.addf(at, "%s may not be set here: %s", arg.Name, mend)
		} else if !argPattern.MatchString(arg.Name) {
			p.addf(at, "%q is no kubelet flag: want the name without leading dashes, such as max-pods", clip(arg.Name))
		}
		if seen[arg.Name] && apiVersion == "v1beta3" {
			p.addf(at, "%q is written twice, which artifacts.kubeadm.apiVersion v1beta3 cannot say", clip(arg.Name))
		}
		seen[arg.Name] = true
	}
}
