package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"dynk8s.du5t1n.me/provisioner/pkg/config"
)

func newRunCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the daemon",
		Long: `Runs until SIGTERM, SIGINT or SIGHUP, then finishes or gives back what is in
flight and exits within 25 seconds. A changed file is noticed by itself. Settings come from the file; DYNK8S_ variables of the
environment and flags go over it. AWS credentials are found as the AWS SDK finds
them.`,
		Example: "  dynk8s-provisioner run --config /etc/dynk8s/config.yaml --log-level debug",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), invocation{
				file: file, flags: cmd.Flags(), environ: os.Environ(), stderr: cmd.ErrOrStderr(),
			})
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

// invocation is how the daemon was called.
type invocation struct {
	file    string
	flags   *pflag.FlagSet
	environ []string
	stderr  io.Writer
}

func run(ctx context.Context, inv invocation) error {
	cfg, warnings, err := config.Load(inv.file, inv.flags, inv.environ)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(cfg.Log.SlogLevel())
	log := newLogger(inv.stderr, cfg.Log.Format, level)
	slog.SetDefault(log)
	klog.SetSlogLogger(log.With("component", "client-go"))
	for _, w := range warnings {
		log.WarnContext(ctx, "configuration warning", "warning", w)
	}
	log.InfoContext(ctx, "starting", "version", buildVersion(), "config", inv.file, "profiles", len(cfg.Profiles))
	d, err := newDaemon(ctx, cfg, inv, level, log)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err = d.run(ctx)
	log.InfoContext(ctx, "stopped", "err", err)
	return err
}

func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
