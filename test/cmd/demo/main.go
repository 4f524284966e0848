//go:build linux

// Command demo shows the main job of the program on real parts: instances start
// and get a key and a token, one fetches its artifacts and joins by the real
// kubeadm, one dies and everything is taken back. It ends with an error when a
// step did not happen.
//
// DEMO_KUBECONFIG names a kubeconfig of a cluster to use; without it a control
// plane is built, once, and started. DEMO=boot shows the first boot of an instance
// instead: what the script of its user data does, in network namespaces and
// through real WireGuard, until the instance is a Node.
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

func run(ctx context.Context) error {
	var show func(context.Context, *timeline, string) error
	switch name := os.Getenv("DEMO"); name {
	case "":
		show = runMainJob
	case "boot":
		show = runBoot
	default:
		return fmt.Errorf("DEMO=%s: there is no such demonstration; write DEMO=boot, or nothing for the main job", name)
	}
	dir, err := os.MkdirTemp("", "dynk8s-demo-")
	if err != nil {
		return err
	}
	if err := show(ctx, newTimeline(os.Stdout), dir); err != nil {
		fmt.Fprintf(os.Stderr, "logs are kept in %s\n", dir)
		return err
	}
	return os.RemoveAll(dir)
}

func runMainJob(ctx context.Context, t *timeline, dir string) error {
	s := &scene{timeline: t, dir: dir}
	err := s.prepare(ctx)
	if err == nil {
		err = s.play(ctx)
	}
	return errors.Join(err, s.close())
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
