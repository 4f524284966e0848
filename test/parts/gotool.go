//go:build linux

package parts

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

// goTool is a program that `go install` builds from its module. Go verifies the
// module and all it needs against the checksum database.
type goTool struct {
	name    string // of the program, and of its folder in the cache
	pkg     string
	version string
	minutes string // how long it takes on two cores
	built   string // what `go install` calls it, when that is not its name
}

// path returns the path of the program. It is built when the cache does not hold
// it, which needs the network; lines about that go to w (nil: nowhere).
func (g goTool) path(ctx context.Context, w io.Writer) (string, error) {
	pt := part{
		name:   g.name + " " + g.version,
		folder: g.name + "-" + g.version + "-" + hash(),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building %s %s once for this machine, about %s min", g.name, g.version, g.minutes)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
			if err := run(ctx, dir, env, "go", "install", g.pkg+"@"+g.version); err != nil || g.built == "" {
				return err
			}
			return os.Rename(filepath.Join(dir, g.built), filepath.Join(dir, g.name))
		},
	}
	dir, err := pt.ensure(ctx, w)
	return filepath.Join(dir, g.name), err
}
