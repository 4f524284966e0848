//go:build linux

// Command parts builds the real parts that tests and demo run on, unless the
// cache holds them. Tests would do the same, but `go test` shows what a test
// says only at its end.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := build(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { _, err := parts.ControlPlane(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.AWSStandIn(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.Helm(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.Helm3(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.HelmDocs(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.Tofu(ctx, os.Stdout); return err })
	g.Go(func() error { _, _, err := parts.Tflint(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.AWSProvider(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.Shfmt(ctx, os.Stdout); return err })
	g.Go(func() error { _, err := parts.WireGuardGo(ctx, os.Stdout); return err })
	return g.Wait()
}
