package artifact

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

// Names inside a discovery kubeconfig that has a user.
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
	config, err := discoveryConfig(&clientcmdapi.Cluster{
		Server: cluster.Server, CertificateAuthorityData: cluster.CAData,
	}, token, cfg)
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	rendered, err := clientcmd.Write(config)
	if err != nil {
		return nil, fmt.Errorf("discovery kubeconfig: %w", err)
	}
	return rendered, nil
}

// discoveryConfig joins the cluster and, when cfg says so, the token as its
// user. Without a user the cluster has no name and there is no context, as in
// cluster-info: kubeadm looks for an unnamed cluster, and client-go calls a
// context without a user invalid.
func discoveryConfig(cluster *clientcmdapi.Cluster, token bootstraptoken.Token, cfg Config) (clientcmdapi.Config, error) {
	if !cfg.TokenInKubeconfig {
		return clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": cluster}}, nil
	}
	if err := validateToken(token); err != nil {
		return clientcmdapi.Config{}, err
	}
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{clusterName: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{userName: {Token: token.Reveal()}},
		Contexts:       map[string]*clientcmdapi.Context{contextName: {Cluster: clusterName, AuthInfo: userName}},
		CurrentContext: contextName,
	}, nil
}
