//go:build linux

package parts

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

// shfmtVersion is the formatter of shell scripts. Go verifies the module and all
// it needs against the checksum database.
const shfmtVersion = "v3.14.1"

// Shfmt returns the path of the program shfmt. It builds it when the cache does
// not hold it, which takes some seconds and the network for the Go modules;
// lines about that go to w (nil: nowhere).
func Shfmt(ctx context.Context, w io.Writer) (string, error) {
	pt := part{
		name:   "shfmt",
		folder: "shfmt-" + shfmtVersion + "-" + hash(),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building shfmt %s once for this machine, about 10 s", shfmtVersion)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
			return run(ctx, dir, env, "go", "install", "mvdan.cc/sh/v3/cmd/shfmt@"+shfmtVersion)
		},
	}
	dir, err := pt.ensure(ctx, w)
	return filepath.Join(dir, "shfmt"), err
}
