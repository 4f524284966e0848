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
	s, err := newScene(ctx, dir, newTimeline(os.Stdout))
	if err != nil {
		return err
	}
	err = s.play(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "logs are kept in %s\n", dir)
		return errors.Join(err, s.close())
	}
	return errors.Join(s.close(), os.RemoveAll(dir))
}

// kubeconfigOverride is the cluster to use instead of one of our own; empty:
// none.
func kubeconfigOverride() (string, error) {
	path := os.Getenv("DEMO_KUBECONFIG")
	if path == "" {
		return "", nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("DEMO_KUBECONFIG: %w", err)
	}
	return path, nil
}
