//go:build linux

package parts

import (
	"context"
	"io"
	"os"
	"path/filepath"
)

// wireguardGoVersion is the WireGuard in user space that stands in where the
// kernel has none. Go verifies the module against the checksum database.
const wireguardGoVersion = "v0.0.0-20260522210424-ecfc5a8d5446"

// WireGuardGo returns the path of the program wireguard-go. It builds it when the
// cache does not hold it, which takes a few seconds and the network for the Go
// modules; lines about that go to w (nil: nowhere).
func WireGuardGo(ctx context.Context, w io.Writer) (string, error) {
	const program = "wireguard-go"
	pt := part{
		name:   program,
		folder: program + "-" + wireguardGoVersion + "-" + hash(),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building %s %s once for this machine, under a minute", program, wireguardGoVersion)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
			if err := run(ctx, dir, env, "go", "install", "golang.zx2c4.com/wireguard@"+wireguardGoVersion); err != nil {
				return err
			}
			// Go names it after the module, wg-quick and everybody else after this.
			return os.Rename(filepath.Join(dir, "wireguard"), filepath.Join(dir, program))
		},
	}
	dir, err := pt.ensure(ctx, w)
	return filepath.Join(dir, program), err
}
