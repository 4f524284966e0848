//go:build linux

package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// Helm returns the path of the program helm, version 4, that the chart's tests
// use.
func Helm(ctx context.Context, w io.Writer) (string, error) {
	return goTool{name: "helm", pkg: "helm.sh/helm/v4/cmd/helm", version: "v4.3.1", minutes: "5"}.path(ctx, w)
}

// Helm3 returns the path of Helm's previous major version, which the chart
// supports as well.
func Helm3(ctx context.Context, w io.Writer) (string, error) {
	return goTool{name: "helm3", pkg: "helm.sh/helm/v3/cmd/helm", version: "v3.22.0", minutes: "3", built: "helm"}.path(ctx, w)
}

// HelmDocs returns the path of helm-docs, which writes the table of values in the
// chart's README.
func HelmDocs(ctx context.Context, w io.Writer) (string, error) {
	return goTool{name: "helm-docs", pkg: "github.com/norwoodj/helm-docs/cmd/helm-docs", version: "v1.14.2", minutes: "1"}.path(ctx, w)
}

// definitions are the files, by module, that define the custom resources which
// the chart can make: other people's, as they publish them.
var definitions = map[string][]string{
	"sigs.k8s.io/gateway-api@v1.6.1": {"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	"github.com/cert-manager/cert-manager@v1.21.2": {
		"deploy/crds/cert-manager.io_certificates.yaml",
	},
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	},
}

// CustomResourceDefinitions returns manifests of the custom resources that the
// chart can make, for an API server that is to check them. They come from Go's
// module cache; the first call needs the network.
func CustomResourceDefinitions(ctx context.Context) ([]string, error) {
	var files []string
	for module, names := range definitions {
		out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", module).Output()
		if err != nil {
			return nil, fmt.Errorf("go mod download %s: %w: %s", module, err, out)
		}
		var found struct{ Dir string }
		if err := json.Unmarshal(out, &found); err != nil {
			return nil, fmt.Errorf("go mod download %s: %w", module, err)
		}
		for _, name := range names {
			files = append(files, filepath.Join(found.Dir, filepath.FromSlash(name)))
		}
	}
	return files, nil
}
