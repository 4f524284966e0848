package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

func newHostRemoveCommand() *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "remove --config FILE NAME",
		Short: "Revoke a host's token and delete its Node",
		Long: `Revokes the token of the host, if it has one, and deletes the Node NAME if it
carries the label ` + bootstraptoken.HostLabel + `=NAME, as the Nodes of hosts that
were added here do. A Node without it is deleted only with --force, one of an EC2
instance never. Drain the Node first: its pods are not moved.

What the kubelet has, its certificate, stays good until it expires: run
"kubeadm reset" on a host that you keep.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := artifact.ValidateHostName(args[0]); err != nil {
				return err
			}
			return withHosts(cmd, file, func(ctx context.Context, s hostSession) error {
				return removeHost(ctx, s, args[0], force, cmd.OutOrStdout())
			})
		},
	}
	addConfigFlags(cmd, &file)
	cmd.Flags().BoolVar(&force, "force", false, "delete the Node also when host add did not make it")
	return cmd
}

func removeHost(ctx context.Context, s hostSession, name string, force bool, out io.Writer) error {
	removed, err := s.Remove(ctx, name, force)
	token, node := "no token", "no node"
	if len(removed.TokenIDs) > 0 {
		token = "token " + strings.Join(removed.TokenIDs, ", ") + " revoked"
	}
	switch {
	case removed.Node:
		node = "node deleted"
	case err != nil:
		node = "node not deleted"
	}
	if _, writeErr := fmt.Fprintf(out, "host %s: %s, %s\n", name, token, node); err == nil {
		err = writeErr
	}
	return err
}

func newHostListCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list --config FILE",
		Short: "List the hosts, their tokens and their Nodes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withHosts(cmd, file, func(ctx context.Context, s hostSession) error {
				return listHosts(ctx, s, cmd.OutOrStdout())
			})
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

// hostLine is what is known of one host.
type hostLine struct{ tokenID, expires, node string }

func listHosts(ctx context.Context, s hostSession, out io.Writer) error {
	tokens, err := s.Tokens.All(ctx)
	if err != nil {
		return err
	}
	nodes, err := s.kube.calls.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: bootstraptoken.HostLabel})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	lines := map[string]hostLine{}
	for _, n := range nodes.Items {
		lines[n.Name] = hostLine{node: readiness(n)}
	}
	for _, t := range tokens {
		line := lines[t.Host]
		line.tokenID, line.expires = t.Token.ID(), t.Expires.Format(time.RFC3339)
		if t.Expired(time.Now()) {
			line.expires = "expired"
		}
		lines[t.Host] = line
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "HOST\tTOKEN\tEXPIRES\tNODE") // Flush tells
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		l := lines[name]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, cmp.Or(l.tokenID, "-"), cmp.Or(l.expires, "-"), cmp.Or(l.node, "-"))
	}
	return table.Flush()
}

func readiness(n corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return "Ready"
		}
	}
	return "NotReady"
}
