package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/ec2lookup"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// reissueTimeout bounds the whole command: the caches' first lists, one look at
// EC2 and a handful of calls to the API server.
const reissueTimeout = time.Minute

func newReissueCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "reissue --config FILE INSTANCE",
		Short: "Let an instance that has joined, or is too old, fetch its artifacts again",
		Long: `Revokes the instance's bootstrap token, makes a new one and opens the artifact
endpoint for the instance: until its Node becomes Ready, or else for the life of
one token (bootstrapToken.ttl of its profile). The age of its identity document
does not count meanwhile. It keeps its WireGuard key. The instance must be
pending or running, match a profile, and still prove who it is.

kubeadm refuses to join while a Ready Node of the name exists: delete the Node
first. The daemon need not be told; in its pod:

  kubectl exec deploy/dynk8s-provisioner -- \
    dynk8s-provisioner reissue --config /etc/dynk8s/config.yaml i-0123456789abcdef0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := instance.ParseID(args[0])
			if err != nil {
				return err
			}
			cfg, _, err := config.Load(file, cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), reissueTimeout)
			defer cancel()
			return reissue(ctx, cfg, id, cmd.OutOrStdout(), newLogger(cmd.ErrOrStderr(), "text", slog.LevelWarn))
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

func reissue(ctx context.Context, cfg *config.Config, id instance.ID, out io.Writer, log *slog.Logger) error {
	kube, err := newKubernetesClients(cfg.Kubernetes)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry() // nobody reads it
	aws, err := newAWSClients(ctx, cfg, registry)
	if err != nil {
		return err
	}
	r, err := newRecords(cfg, kube, ec2lookup.New(aws.ec2, ec2lookup.Config{Logger: log}), recordsConfig{registerer: registry, log: log})
	if err != nil {
		return err
	}
	profiles, err := lifecycleProfiles(cfg, nil) // no Node is given a label here
	if err != nil {
		return err
	}
	r.lifecycle.SetProfiles(profiles)
	if err := r.sync(ctx); err != nil {
		return err
	}
	given, err := r.lifecycle.Reissue(ctx, id)
	if err != nil {
		return fmt.Errorf("reissue %s: %w", id, err)
	}
	_, err = fmt.Fprintf(out, "instance %s may fetch its artifacts until %s, or until its Node is Ready\ntoken id %s, WireGuard key %s, profile %s\n",
		id, given.Until.Format(time.RFC3339), given.TokenID, given.Key, given.Profile)
	return err
}

// sync starts the informers, which stop with ctx, and waits for their first
// lists.
func (r *records) sync(ctx context.Context) error {
	synced := make([]cache.InformerSynced, len(r.informers))
	for i, informer := range r.informers {
		go informer.RunWithContext(ctx)
		synced[i] = informer.HasSynced
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.Join(errors.New("the API server's objects could not be listed"), context.Cause(ctx))
	}
	return nil
}
