//go:build linux

package terraform

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"dynk8s.du5t1n.me/provisioner/test/parts"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

var update = flag.Bool("update", false, "rewrite the tables in the module's README")

// where are the tools, the tree, and a copy of the module in which tofu may leave
// what it leaves.
var where struct{ tofu, tflint, tflintPlugins, root, scratch, cliConfig string }

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if where.root, err = parts.Root(); err != nil {
		return 1, err
	}
	if where.scratch, err = os.MkdirTemp("", "dynk8s-terraform-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(where.scratch) }() // in the temporary folder
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare builds the tools and copies the module with all that it reads.
func prepare(ctx context.Context) error {
	var mirror, awsRules string
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { where.tofu, err = parts.Tofu(gctx, os.Stderr); return err })
	g.Go(func() (err error) { where.tflint, awsRules, err = parts.Tflint(gctx, os.Stderr); return err })
	g.Go(func() (err error) { mirror, err = parts.AWSProvider(gctx, os.Stderr); return err })
	if err := g.Wait(); err != nil {
		return err
	}
	where.cliConfig = filepath.Join(where.scratch, "tofurc")
	config := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(where.cliConfig, []byte(config), 0o600); err != nil {
		return err
	}
	where.tflintPlugins = filepath.Join(where.scratch, "plugins")
	plugin := filepath.Join(where.tflintPlugins, "github.com", "terraform-linters", "tflint-ruleset-aws", "0.48.0")
	if err := os.MkdirAll(plugin, 0o750); err != nil {
		return err
	}
	if err := os.Symlink(awsRules, filepath.Join(plugin, "tflint-ruleset-aws")); err != nil {
		return err
	}
	for _, folder := range []string{"terraform", "userdata"} {
		if err := os.CopyFS(filepath.Join(where.scratch, folder), os.DirFS(filepath.Join(where.root, folder))); err != nil {
			return err
		}
	}
	for _, dir := range append(examples(), ".") {
		if out, err := tofu(ctx, dir, "init", "-backend=false"); err != nil {
			return fmt.Errorf("tofu init in %s: %w\n%s", dir, err, out)
		}
	}
	return nil
}

// examples are the folders of the examples, beside the module's own, ".".
func examples() []string { return []string{"examples/minimal", "examples/full"} }

// module is a path in the copy of the module.
func module(path ...string) string {
	return filepath.Join(append([]string{where.scratch, "terraform"}, path...)...)
}

// tofu runs tofu in a folder of the copy and returns what it prints.
func tofu(ctx context.Context, dir string, args ...string) (string, error) {
	return tofuIn(ctx, stack.Region, dir, args...)
}

// tofuIn has the provider work in another region, where no provider is
// configured.
func tofuIn(ctx context.Context, region, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, where.tofu, args...)
	cmd.Dir = module(dir)
	// Nothing of the caller's may change what is tested, such as TF_VAR_….
	cmd.Env = []string{
		"TF_CLI_CONFIG_FILE=" + where.cliConfig, "HOME=" + where.scratch, "PATH=" + os.Getenv("PATH"),
		"AWS_REGION=" + region, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}
