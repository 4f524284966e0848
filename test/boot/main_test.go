//go:build linux

package boot

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/test/daemon"
)

// shared is the world of all tests: each adds a key and launches an instance.
var shared *World

var keepLogs = flag.String("logs", "", "keep all logs in this folder")

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "first boot:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir := *keepLogs
	if dir == "" {
		if dir, err = os.MkdirTemp("", "dynk8s-boot-"); err != nil {
			return 1, err
		}
		defer func() { _ = os.RemoveAll(dir) }() // in the temporary folder
	}
	program, err := daemon.Build(ctx, dir, false)
	if err != nil {
		return 1, err
	}
	begun := time.Now()
	if shared, err = Start(ctx, Options{Dir: dir, Program: program, Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.Stop(); err == nil {
			err = stopErr
		}
	}()
	fmt.Fprintf(os.Stderr, "cluster and cloud are up after %s\n", time.Since(begun).Round(time.Second))
	return m.Run(), nil
}
