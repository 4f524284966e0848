//go:build linux

package parts

import (
	"context"
	"io"
)

// Shfmt returns the path of the program shfmt, which formats shell scripts.
func Shfmt(ctx context.Context, w io.Writer) (string, error) {
	return goTool{name: "shfmt", pkg: "mvdan.cc/sh/v3/cmd/shfmt", version: "v3.14.1", minutes: "1"}.path(ctx, w)
}
