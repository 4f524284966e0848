//go:build linux

package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// awsProviderVersion is the version whose schema the pinned bindings have.
const awsProviderVersion = "6.25.0"

// awsProviderFiles are what the stand-in is made of.
var awsProviderFiles = []string{
	"go.mod", "go.sum", "main.go", "schema.go", "server.go", "values.go", "schema.py", "kinds.txt", "requirements.txt",
}

// AWSProvider returns the folder of a filesystem mirror of providers that holds
// test/awsprovider: a program with the schema of Terraform's AWS provider, which
// plans and creates nothing.
func AWSProvider(ctx context.Context, w io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	src := filepath.Join(root, "test", "awsprovider")
	pins, err := readAll(src, awsProviderFiles...)
	if err != nil {
		return "", err
	}
	pt := part{
		name:   "AWS provider's stand-in",
		folder: fmt.Sprintf("awsprovider-%s-%s", awsProviderVersion, hash(pins...)),
		build: func(ctx context.Context, dir string, p *progress) error {
			// Its virtual environment has a pip that works.
			standIn, err := AWSStandIn(ctx, w)
			if err != nil {
				return err
			}
			return buildAWSProvider(ctx, filepath.Join(standIn, "bin", "python"), src, dir, p)
		},
	}
	return pt.ensure(ctx, w)
}

func buildAWSProvider(ctx context.Context, python, src, dir string, p *progress) error {
	out := filepath.Join(dir, "registry.opentofu.org", "hashicorp", "aws", awsProviderVersion, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	wheels, err := os.MkdirTemp("", "dynk8s-bindings-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(wheels) }() // in the temporary folder
	done := p.step("the provider's schema 1/2, about 1 min")
	err = run(ctx, src, os.Environ(), python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
		"--no-deps", "--require-hashes", "-r", "requirements.txt", "-d", wheels)
	if err == nil {
		err = writeSchema(ctx, python, src, wheels, filepath.Join(out, "schema.json"))
	}
	done()
	if err != nil {
		return err
	}
	defer p.step("the program 2/2, about 1 min")()
	env := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	return run(ctx, src, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", filepath.Join(out, "terraform-provider-aws_v"+awsProviderVersion), ".")
}

func writeSchema(ctx context.Context, python, src, wheels, output string) error {
	found, err := filepath.Glob(filepath.Join(wheels, "*.whl"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("pip downloaded %v, want one wheel", found)
	}
	return run(ctx, src, os.Environ(), python, "schema.py", found[0], "kinds.txt", output)
}
