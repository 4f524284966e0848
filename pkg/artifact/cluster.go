package artifact

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is how an API server is reached and recognised.
type Cluster struct {
	// Server is an https URL.
	Server string
	// CAData holds the cluster's CA certificates, PEM.
	CAData []byte
}

var errNoCA = errors.New("the cluster has no CA certificate in certificate-authority-data")

// parseClusterInfo reads the kubeconfig that cluster-info holds. It wants
// exactly one cluster: which of two an instance should join is not for us to
// guess.
func parseClusterInfo(kubeconfig []byte) (Cluster, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// Text only and not much of it: the decoder may quote all it was given.
		return Cluster{}, fmt.Errorf("not a kubeconfig: %.200q", err.Error())
	}
	if n := len(config.Clusters); n != 1 {
		return Cluster{}, fmt.Errorf("the kubeconfig holds %d clusters, want one", n)
	}
	for _, c := range config.Clusters {
		return newCluster(c)
	}
	return Cluster{}, nil // not reached
}

func newCluster(c *clientcmdapi.Cluster) (Cluster, error) {
	if err := validateServer(c.Server); err != nil {
		return Cluster{}, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(c.CertificateAuthorityData) {
		return Cluster{}, errNoCA
	}
	return Cluster{Server: c.Server, CAData: c.CertificateAuthorityData}, nil
}

// validateServer refuses what would send a bootstrap token unencrypted. It does
// not quote the URL's user part.
func validateServer(server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return errors.New("the API server's address is no URL")
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("the API server's address %.128q is no https URL", u.Redacted())
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the API server's address must be a URL of host, port and path only")
	}
	return nil
}
