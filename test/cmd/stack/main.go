//go:build linux

// Command stack starts, shows and stops a local stack that outlives the
// command.
//
//	stack up|down|status [--dir FOLDER]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

const usage = "usage: stack up|down|status [--dir FOLDER]"

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("stack "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "run folder (default: .cache/stack under the repository's root)")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w; %s", err, usage)
	}
	if *dir == "" {
		root, err := parts.Root()
		if err != nil {
			return err
		}
		*dir = filepath.Join(root, ".cache", "stack")
	}
	return command(ctx, args[0], filepath.Clean(*dir), out)
}

func command(ctx context.Context, name, dir string, out io.Writer) error {
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	switch name {
	case "up":
		return up(ctx, dir, out)
	case "down":
		return down(dir, out)
	case "status":
		return status(dir, out)
	default:
		return errors.New(usage)
	}
}

// lock keeps two commands from working on one stack at the same time.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}
