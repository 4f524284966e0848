package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/host"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

// hostTimeout bounds a command: it makes a handful of calls to the API server.
const hostTimeout = time.Minute

func newHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Add machines that are not in EC2, and take them back",
		Long: `A host is a machine of your own that joins the cluster, such as a worker at home.
These commands speak to the API server with your kubeconfig and need neither AWS
nor the daemon; see docs/hosts.md. The configuration is the daemon's:

  kubectl -n dynk8s get configmap dynk8s-provisioner -o jsonpath='{.data.config\.yaml}' >config.yaml
  dynk8s-provisioner host list --config config.yaml --namespace dynk8s --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHostAddCommand(), newHostRemoveCommand(), newHostListCommand())
	return cmd
}

// hostSession is what the commands about hosts have at hand.
type hostSession struct {
	cfg  *config.Config
	kube *kubernetesClients
	host.Registrar
}

// withHosts runs f with the settings and clients that the command's flags name.
func withHosts(cmd *cobra.Command, file string, f func(context.Context, hostSession) error) error {
	cfg, _, err := config.Load(file, cmd.Flags(), os.Environ())
	if err != nil {
		return err
	}
	kube, err := newKubernetesClients(cfg.Kubernetes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), hostTimeout)
	defer cancel()
	return f(ctx, hostSession{cfg, kube, host.Registrar{
		Tokens:  bootstraptoken.NewHostIssuer(kube.calls.CoreV1().Secrets(metav1.NamespaceSystem)),
		Nodes:   node.New(kube.calls.CoreV1().Nodes(), nil), // only what it reads live is asked for
		Cluster: artifact.NewClusterInfoReader(kube.calls),
	}})
}
