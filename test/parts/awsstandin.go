//go:build linux

package parts

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// requirements pins the stand-ins and all they depend on, with hashes. It is
// made from requirements.in by `pip-compile --generate-hashes`.
//
//go:embed requirements.txt
var requirements []byte

// AWSStandIn returns the folder of a Python virtual environment with ministack
// and moto. Run them by its interpreter (bin/python -m …): the scripts in bin
// name the folder they were installed to first.
func AWSStandIn(ctx context.Context, w io.Writer) (string, error) {
	python, err := findPython(ctx)
	if err != nil {
		return "", err
	}
	pt := part{
		name:   "AWS stand-in",
		folder: "awsstandin-" + hash(requirements, python.identity),
		usable: func(dir string) bool { // not when the interpreter behind it is gone
			_, err := os.Stat(filepath.Join(dir, "bin", "python"))
			return err == nil
		},
		build: func(ctx context.Context, dir string, p *progress) error {
			return installStandIn(ctx, python.path, dir, p)
		},
	}
	return pt.ensure(ctx, w)
}

type interpreter struct {
	path     string
	identity []byte // real path and version: a virtual environment fits only one
}

func findPython(ctx context.Context) (interpreter, error) {
	path, err := exec.LookPath("python3")
	if err != nil {
		return interpreter{}, fmt.Errorf("the AWS stand-in needs Python 3: %w; install it (Debian: apt-get install python3 python3-venv)", err)
	}
	const check = "import sys; print(sys.executable, sys.version, sep='\\n')\nimport venv, ensurepip"
	identity, err := exec.CommandContext(ctx, path, "-c", check).CombinedOutput()
	if err != nil {
		return interpreter{}, fmt.Errorf("the AWS stand-in needs Python's modules venv and ensurepip, and %s has them not: %w: %s; "+
			"install them (Debian: apt-get install python3-venv)", path, err, tail(string(identity), 3))
	}
	real, _, _ := bytes.Cut(identity, []byte("\n"))
	return interpreter{path: string(real), identity: identity}, nil
}

func installStandIn(ctx context.Context, python, dir string, p *progress) error {
	if err := os.RemoveAll(dir); err != nil { // half a virtual environment is of no use
		return err
	}
	done := p.step("virtual environment 1/2, about 5 s")
	err := run(ctx, "", os.Environ(), python, "-m", "venv", dir)
	done()
	if err != nil {
		return err
	}
	pinned := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(pinned, requirements, 0o600); err != nil {
		return err
	}
	done = p.step("ministack and moto 2/2, about 2 min")
	defer done()
	return run(ctx, "", os.Environ(), filepath.Join(dir, "bin", "python"), "-m", "pip", "install",
		"--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "-r", pinned)
}
