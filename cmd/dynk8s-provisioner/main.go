// Command dynk8s-provisioner gives EC2 instances that start a WireGuard key and
// a bootstrap token for an on-premises Kubernetes cluster, and takes both back
// when they die.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// After the first signal the second one kills, as people expect.
	context.AfterFunc(ctx, stop)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "dynk8s-provisioner",
		Short: "Lets EC2 instances join an on-premises Kubernetes cluster",
		Long: `dynk8s-provisioner watches an SQS queue for state changes of EC2 instances.
An instance that starts and matches a profile gets a WireGuard key and a
kubeadm bootstrap token; when it dies, both are taken back and its Node is
deleted. Instances fetch what they were given over HTTPS and prove by
their identity document which one they are.`,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints the error
	}
	root.AddCommand(newRunCommand(), newCheckCommand(), newReissueCommand(),
		newHostCommand(), newKeysCommand(), newProbeCommand(), newVersionCommand())
	return root
}
