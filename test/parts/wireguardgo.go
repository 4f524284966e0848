//go:build linux

package parts

import (
	"context"
	"io"
)

// WireGuardGo returns the path of wireguard-go, the WireGuard in user space that
// stands in where the kernel has none. Go names the program after the module,
// wg-quick and everybody else after this.
func WireGuardGo(ctx context.Context, w io.Writer) (string, error) {
	return goTool{
		name: "wireguard-go", pkg: "golang.zx2c4.com/wireguard", version: "v0.0.0-20260522210424-ecfc5a8d5446",
		minutes: "1", built: "wireguard",
	}.path(ctx, w)
}
