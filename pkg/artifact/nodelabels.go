package artifact

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// instanceLabel is how the reconcile pass knows Nodes that were ours.
const instanceLabel = instance.Label

// nodeLabels returns the settings' labels and those that say which instance
// this is and where.
func nodeLabels(s NodeSettings, g lifecycle.Grant) (map[string]string, error) {
	labels := map[string]string{corev1.LabelTopologyZone: g.Zone}
	if region, ok := regionOf(g.Zone); ok {
		labels[corev1.LabelTopologyRegion] = region
	}
	if g.InstanceType != "" {
		labels[corev1.LabelInstanceTypeStable] = g.InstanceType
	}
	maps.Copy(labels, s.Labels)
	if err := validateLabels(labels); err != nil {
		return nil, err
	}
	labels[instanceLabel] = string(g.Instance)
	return labels, nil
}

// joinLabels writes labels as the kubelet's --node-labels reads them. Validated
// labels hold neither a comma nor an equals sign.
func joinLabels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}

func validateLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("node label %.64q: %s", key, problems[0])
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return fmt.Errorf("node label %s: value %.64q: %s", key, labels[key], problems[0])
		}
		if key == instanceLabel {
			return fmt.Errorf("node label %s cannot be set: it is the instance's id", key)
		}
		if key == bootstraptoken.HostLabel {
			return fmt.Errorf("node label %s cannot be set: it is the name of a host", key)
		}
		if isKubernetesLabel(key) && !kubeletapis.IsKubeletLabel(key) {
			return fmt.Errorf("node label %s: a kubelet may not give itself this label", key)
		}
	}
	return nil
}

// isKubernetesLabel tells the names in which the kubelet and the API server's
// NodeRestriction allow only some labels.
func isKubernetesLabel(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	prefix = "." + prefix
	return found && (strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io"))
}

// zonePattern fits availability zones, whose region is the zone without its
// letter. Local and wavelength zones (us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1)
// do not fit.
var zonePattern = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)[a-z]$`)

func regionOf(zone string) (string, bool) {
	m := zonePattern.FindStringSubmatch(zone)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// anyZone fits local and wavelength zones, too.
var anyZone = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

func validZone(zone string) bool { return anyZone.MatchString(zone) }
