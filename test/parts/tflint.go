//go:build linux

package parts

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// tflintVersion is the tflint that the Terraform module is checked with.
const tflintVersion = "v0.64.0"

// Tflint returns the path of the program tflint, and of the program with its
// rules for AWS. It builds them when the cache does not hold them, which takes
// about eight minutes on two cores.
func Tflint(ctx context.Context, w io.Writer) (program, awsRules string, err error) {
	pt := part{
		name:   "tflint",
		folder: "tflint-" + tflintVersion + "-" + hash(),
		build: func(ctx context.Context, dir string, p *progress) error {
			defer p.step("building tflint %s once for this machine, about 4 min", tflintVersion)()
			env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOBIN="+dir)
			return run(ctx, dir, env, "go", "install", "github.com/terraform-linters/tflint@"+tflintVersion)
		},
	}
	dir, err := pt.ensure(ctx, w)
	if err != nil {
		return "", "", err
	}
	awsRules, err = wrapped(ctx, w, wrapper{
		module: "tflint", program: "tflint-ruleset-aws", takes: "4 min", pkg: "github.com/terraform-linters/tflint-ruleset-aws",
		requires: regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/terraform-linters/tflint-ruleset-aws (v\S+)`),
		ldflags:  "-s -w",
	})
	return filepath.Join(dir, "tflint"), awsRules, err
}
