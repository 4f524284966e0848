//go:build linux

package parts

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

// helmVersion is the Helm that the chart's tests use. Go verifies the module and
// all it needs against the checksum database.
const helmVersion = "v4.3.1"

// Helm returns the path of the program helm. It builds it when the cache does not
// hold it, which takes about five minutes on two cores and the network for the Go
// modules; lines about that go to w (nil: nowhere).
func Helm(ctx context.Context, w io.Writer) (string, error) {
	pt := part{
		name:   "helm",
		folder: "helm-" + helmVersion + "-" + hash(),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building helm %s once for this machine, about 5 min", helmVersion)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
			return run(ctx, dir, env, "go", "install", "helm.sh/helm/v4/cmd/helm@"+helmVersion)
		},
	}
	dir, err := pt.ensure(ctx, w)
	return filepath.Join(dir, "helm"), err
}
