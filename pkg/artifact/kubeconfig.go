package artifact

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

// Names inside the discovery kubeconfig. kubeadm wants an unnamed cluster or a
// current context; with the context, kubectl can use the file as well.
const (
	clusterName = "kubernetes"
	contextName = "bootstrap@kubernetes"
	userName    = "bootstrap"
)

// renderKubeconfig writes the discovery kubeconfig, with the token as its user
// when cfg says so.
func renderKubeconfig(c Cluster, token bootstraptoken.Token, cfg Config) ([]byte, error) {
	if cfg.Server != "" {
		c.Server = cfg.Server
	}
	cluster, err := newCluster(&clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: c.CAData})
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	context := &clientcmdapi.Context{Cluster: clusterName}
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{clusterName: {
			Server: cluster.Server, CertificateAuthorityData: cluster.CAData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{contextName: context},
		CurrentContext: contextName,
	}
	if cfg.TokenInKubeconfig {
		if err := validateToken(token); err != nil {
			return nil, fmt.Errorf("discovery kubeconfig: %w", err)
		}
		context.AuthInfo = userName
		config.AuthInfos = map[string]*clientcmdapi.AuthInfo{userName: {Token: token.Reveal()}}
	}
	rendered, err := clientcmd.Write(config)
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	return rendered, nil
}
