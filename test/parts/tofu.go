//go:build linux

package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// Tofu returns the path of the program tofu, OpenTofu as test/tofu pins it. It
// builds it when the cache does not hold it, which takes about eight minutes on
// two cores and the network for the Go modules; lines about that go to w (nil:
// nowhere).
func Tofu(ctx context.Context, w io.Writer) (string, error) {
	const pkg = "github.com/opentofu/opentofu/cmd/tofu"
	// Without dev=no it calls itself a development version.
	return wrapped(ctx, w, wrapper{
		module: "tofu", program: "tofu", takes: "8 min", pkg: pkg,
		requires: regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/opentofu/opentofu (v\S+)`),
		ldflags:  "-s -w -X github.com/opentofu/opentofu/version.dev=no",
	})
}

// wrapper is a program that is pinned by a module of its own under test, because
// its own module has replace lines, or is not to be had otherwise.
type wrapper struct {
	module, program, pkg, takes, ldflags string
	requires                             *regexp.Regexp // finds its version in go.mod
}

// wrapped builds the program unless the cache holds it, and returns its path.
func wrapped(ctx context.Context, w io.Writer, wr wrapper) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	src := filepath.Join(root, "test", wr.module)
	pins, err := readAll(src, "go.mod", "go.sum")
	if err != nil {
		return "", err
	}
	version := wr.requires.FindSubmatch(pins[0])
	if version == nil {
		return "", errors.New("test/" + wr.module + "/go.mod does not require " + wr.pkg)
	}
	pt := part{
		name:   wr.program,
		folder: fmt.Sprintf("%s-%s-%s", wr.program, version[1], hash(pins...)),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building %s %s once for this machine, about %s", wr.program, version[1], wr.takes)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
			return run(ctx, src, env, "go", "build", "-trimpath", "-buildvcs=false",
				"-ldflags", wr.ldflags, "-o", filepath.Join(dir, wr.program), wr.pkg)
		},
	}
	dir, err := pt.ensure(ctx, w)
	return filepath.Join(dir, wr.program), err
}
