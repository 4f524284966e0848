package artifact

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

var errNoKubeconfig = errors.New("the ConfigMap has no key " + bootstrapapi.KubeConfigKey)

// ClusterInfoReader reads the ConfigMap cluster-info in kube-public, which
// kubeadm made. It never writes.
type ClusterInfoReader struct {
	client kubernetes.Interface
}

// NewClusterInfoReader returns a reader that asks the API server each time, so
// that a rotated CA is served at once.
func NewClusterInfoReader(client kubernetes.Interface) *ClusterInfoReader {
	return &ClusterInfoReader{client: client}
}

// ClusterInfo returns the only cluster that cluster-info names.
func (r *ClusterInfoReader) ClusterInfo(ctx context.Context) (Cluster, error) {
	const name = bootstrapapi.ConfigMapClusterInfo
	cm, err := r.client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Cluster{}, fmt.Errorf("read cluster-info: %w", err)
	}
	kubeconfig, found := cm.Data[bootstrapapi.KubeConfigKey]
	if !found {
		return Cluster{}, fmt.Errorf("read cluster-info: %w", errNoKubeconfig)
	}
	cluster, err := parseClusterInfo([]byte(kubeconfig))
	if err != nil {
		return Cluster{}, fmt.Errorf("read cluster-info: %w", err)
	}
	return cluster, nil
}
