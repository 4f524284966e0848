package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/host"
)

// The bounds of --ttl. Somebody may have to carry the files to the host and
// install an operating system.
const (
	minHostTTL     = 10 * time.Minute
	maxHostTTL     = 7 * 24 * time.Hour
	defaultHostTTL = time.Hour
)

// maxScript is what a script of a seed may have.
const maxScript = 1 << 20

type hostAdd struct {
	name, profile, nodeIP, server string
	ttl                           time.Duration
	output, seed                  string
	setup                         []string
	force                         bool
}

func newHostAddCommand() *cobra.Command {
	var file string
	var a hostAdd
	cmd := &cobra.Command{
		Use:   "add --config FILE {--output DIR | --seed DIR} NAME",
		Short: "Let a host join the cluster as the Node NAME",
		Long: `Makes a bootstrap token for the host and writes what kubeadm needs to join with
it: with --output discovery.conf and join.yaml, with --seed user-data and
meta-data for cloud-init's NoCloud, which put both on the host and run the
scripts of --setup in their order. All of it is secret and only its owner may
read it.

With certificates.approve the token can become the Node NAME and no other. The
daemon revokes it once that Node is Ready; otherwise it expires. Run again, the
command gives the same token while it lives, and lets it live longer.`,
		Example: `  dynk8s-provisioner host add -c config.yaml --profile home --output ./worker-1 worker-1
  dynk8s-provisioner host add -c config.yaml --seed ./seed \
    --setup userdata/dynk8s-node-setup --setup userdata/hosts/k8s-worker.sh worker-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.name = args[0]
			if err := artifact.ValidateHostName(a.name); err != nil {
				return err
			}
			return withHosts(cmd, file, func(ctx context.Context, s hostSession) error {
				return a.run(ctx, s, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	addConfigFlags(cmd, &file)
	cmd.Flags().StringVar(&a.profile, "profile", "", "profile whose node labels, taints and kubelet arguments the host gets")
	cmd.Flags().DurationVar(&a.ttl, "ttl", 0, "how long the token lives at least (default: the profile's, else 1h)")
	cmd.Flags().StringVar(&a.nodeIP, "node-ip", "", "address that the kubelet gives as its own (default: its choice)")
	cmd.Flags().StringVar(&a.server, "server", "", "URL of the API server as the host reaches it (default: cluster-info's)")
	cmd.Flags().StringVar(&a.output, "output", "", "folder for discovery.conf and join.yaml")
	cmd.Flags().StringVar(&a.seed, "seed", "", "folder for user-data and meta-data")
	cmd.Flags().StringArrayVar(&a.setup, "setup", nil, "script that the seed installs and runs (may be given several times)")
	cmd.Flags().BoolVar(&a.force, "force", false, "replace files that were not made for this host")
	cmd.MarkFlagsOneRequired("output", "seed")
	cmd.MarkFlagsMutuallyExclusive("output", "seed")
	return cmd
}

func (a hostAdd) run(ctx context.Context, s hostSession, out, errs io.Writer) error {
	request, err := a.request(s.cfg, errs)
	if err != nil {
		return err
	}
	scripts, err := a.scripts()
	if err != nil {
		return err
	}
	dir, names := a.output, []string{host.DiscoveryName, host.JoinName}
	if a.seed != "" {
		dir, names = a.seed, []string{host.UserDataName, host.MetaDataName}
	}
	// First what can go wrong without a token.
	folder, err := host.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // every file in it is synced
	if !a.force {
		if err := folder.Check(a.name, names...); err != nil {
			return err
		}
	}
	added, err := s.Add(ctx, request)
	if err != nil {
		return fmt.Errorf("add host %s: %w", a.name, err)
	}
	if err := a.write(folder, added, scripts, s.cfg.Artifacts.Kubeadm.DiscoveryFile); err != nil {
		return fmt.Errorf("%w\ntoken %s of host %s is there all the same: run the command again, or host remove", err, added.Token.Token.ID(), a.name)
	}
	if added.Replaces {
		_, _ = fmt.Fprintf(errs, "note: node %s exists and is not Ready; the host takes its place and keeps its labels and taints\n", a.name)
	}
	_, err = fmt.Fprintf(out, "token %s of host %s: %s, lives until %s, or until the node is Ready\nwrote %s and %s\n",
		added.Token.Token.ID(), a.name, added.How, added.Token.Expires.Format(time.RFC3339),
		filepath.Join(dir, names[0]), filepath.Join(dir, names[1]))
	return err
}

// request joins flags and configuration.
func (a hostAdd) request(cfg *config.Config, errs io.Writer) (host.Request, error) {
	var profile config.Profile
	if a.profile != "" {
		found := false
		for _, p := range cfg.Profiles {
			if p.Name == a.profile {
				profile, found = p, true
			}
		}
		if !found {
			return host.Request{}, fmt.Errorf("profile %q is not in the configuration", a.profile)
		}
		if len(profile.Node.RestrictedLabels)+len(profile.Node.RestrictedTaints) > 0 {
			_, _ = fmt.Fprintf(errs, "note: restrictedLabels and restrictedTaints of profile %s are for instances; give them to the node with kubectl\n", a.profile)
		}
	}
	ttl := cmp.Or(a.ttl, profile.BootstrapToken.TTL, defaultHostTTL)
	if ttl < minHostTTL || ttl > maxHostTTL {
		return host.Request{}, fmt.Errorf("--ttl %s: want %s to %s", ttl, minHostTTL, maxHostTTL)
	}
	r := host.Request{
		Name: a.name, Profile: a.profile,
		Token: bootstraptoken.Settings{TTL: ttl, ExtraGroups: cfg.TokenGroups(profile)},
		Node:  nodeSettingsOf(profile.Node),
		Artifacts: artifact.Config{
			APIVersion:        cfg.Artifacts.Kubeadm.APIVersion,
			Server:            a.server,
			TokenInKubeconfig: cfg.Artifacts.Kubeadm.TokenInKubeconfig,
			DiscoveryFile:     cfg.Artifacts.Kubeadm.DiscoveryFile,
		},
	}
	if a.nodeIP == "" {
		return r, nil
	}
	var err error
	if r.NodeIP, err = netip.ParseAddr(a.nodeIP); err != nil {
		return r, fmt.Errorf("--node-ip %.64q is no IP address", a.nodeIP)
	}
	return r, nil
}

func (a hostAdd) scripts() ([]host.Script, error) {
	if a.seed == "" && len(a.setup) > 0 {
		return nil, errors.New("--setup is for --seed: run the scripts by hand after the files are in place")
	}
	var scripts []host.Script
	for _, path := range a.setup {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("--setup: %w", err)
		}
		if !info.Mode().IsRegular() || info.Size() > maxScript {
			return nil, fmt.Errorf("--setup %s: want a regular file of at most %d bytes", path, maxScript)
		}
		content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("--setup: %w", err)
		}
		scripts = append(scripts, host.Script{Name: filepath.Base(path), Content: content})
	}
	return scripts, host.ValidateScripts(scripts)
}

func (a hostAdd) write(folder *host.Folder, added host.Added, scripts []host.Script, discoveryFile string) error {
	files := host.Files(a.name, added)
	if a.seed != "" {
		var err error
		if files, err = host.Seed(a.name, added, discoveryFile, scripts); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := folder.Write(f.Name, f.Content); err != nil {
			return err
		}
	}
	return nil
}
