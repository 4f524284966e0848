//go:build linux

// Command demo shows the main job of the program on real parts: instances start
// and get a key and a token, one fetches its artifacts and joins by the real
// kubeadm, one dies and everything is taken back. It ends with an error when a
// step did not happen.
//
// DEMO_KUBECONFIG names a kubeconfig of a cluster to use; without it a control
// plane is built, once, and started.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "dynk8s-demo-")
	if err != nil {
		return err
	}
	s := &scene{timeline: newTimeline(os.Stdout), dir: dir}
	err = s.prepare(ctx)
	if err == nil {
		err = s.play(ctx)
	}
	if err = errors.Join(err, s.close()); err != nil {
		fmt.Fprintf(os.Stderr, "logs are kept in %s\n", dir)
		return err
	}
	return os.RemoveAll(dir)
}

// clusterVariable names the environment variable with the cluster to use.
const clusterVariable = "DEMO_KUBECONFIG"

// kubeconfigOverride is the cluster to use instead of one of our own; empty:
// none.
func kubeconfigOverride() (string, error) {
	path := os.Getenv(clusterVariable)
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", clusterVariable, err)
	}
	return path, nil
}
