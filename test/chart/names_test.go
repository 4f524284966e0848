//go:build linux

package chart

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Whatever name Helm takes for a release, those of the resources are ones that
// the API server takes: for Services that is a label.
func TestNamesFollowFromAnyRelease(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"dynk8s":                             "dynk8s-provisioner",
		"edge":                               "edge-dynk8s-provisioner",
		"home.dynk8s":                        "home-dynk8s-dynk8s-provisioner",
		strings.Repeat("a", 38) + "--b":      strings.Repeat("a", 38),
		strings.Repeat("a", 39) + ".b":       strings.Repeat("a", 39),
		strings.Repeat("a", 53):              strings.Repeat("a", 40),
		"dynk8s-provisioner.of.the.1st.site": "dynk8s-provisioner-of-the-1st-site",
	} {
		rendered, err := helm(t, "template", release, where.chart, "--namespace", namespace, "--kube-version", "1.37.2",
			"-f", filepath.Join(where.chart, "ci", "minimal-values.yaml"))
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		services := 0
		for name := range documents(rendered) {
			service, is := strings.CutPrefix(name, "Service "+namespace+"/")
			if !is {
				continue
			}
			services++
			if wrong := validation.IsDNS1123Label(service); len(wrong) > 0 || !strings.HasPrefix(service, want) {
				t.Errorf("%s: a Service is called %s, want %s: %v", release, service, want, wrong)
			}
		}
		if services != 2 {
			t.Errorf("%s: %d Services", release, services)
		}
	}
}

// Two releases of one name may put their dashboards into one namespace.
func TestDashboardsDoNotMeet(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, release := range []string{"a", "b"} {
		rendered, err := helm(t, "template", "dynk8s", where.chart, "--namespace", release,
			"-f", filepath.Join(where.chart, "ci", "minimal-values.yaml"),
			"--set", "metrics.dashboard.enabled=true,metrics.dashboard.namespace=monitoring", "--show-only", "templates/monitoring/dashboard.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(rendered), &dashboard); err != nil || dashboard.Metadata.Namespace != "monitoring" {
			t.Fatal(dashboard, err)
		}
		names[dashboard.Metadata.Name] = true
	}
	if len(names) != 2 {
		t.Errorf("both dashboards are called %v", names)
	}
}
