//go:build linux

package system

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
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// shared is what all tests have in common.
var shared struct {
	stack   *stack.Stack
	ec2     *ec2world.World
	program string
	logs    string
}

var keepLogs = flag.String("logs", "", "keep all logs in this folder")

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "system tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	shared.logs = *keepLogs
	if shared.logs == "" {
		if shared.logs, err = os.MkdirTemp("", "dynk8s-system-"); err != nil {
			return 1, err
		}
		defer func() { _ = os.RemoveAll(shared.logs) }() // in the temporary folder
	}
	if shared.program, err = daemon.Build(ctx, shared.logs, raceDetector); err != nil {
		return 1, err
	}
	begun := time.Now()
	if shared.stack, err = stack.Start(ctx, stack.Options{Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := shared.stack.Stop(); err == nil {
			err = stopErr
		}
	}()
	fmt.Fprintf(os.Stderr, "stack for the tests is up after %s\n", time.Since(begun).Round(time.Second))
	shared.ec2 = ec2world.New(shared.stack)
	code = m.Run()
	if err := secrets.searchLogs(shared.logs, shared.stack.Dir()); err != nil {
		return 1, err
	}
	return code, nil
}
