package artifact

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func clusterInfoMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: data}
}

func TestClusterInfoReader(t *testing.T) {
	t.Parallel()
	cm := clusterInfoMap(map[string]string{"kubeconfig": clusterInfo(testServer, readFile(t, "ca.crt"))})
	got, err := NewClusterInfoReader(fake.NewSimpleClientset(cm)).ClusterInfo(t.Context())
	if err != nil || got.Server != testServer {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestClusterInfoReaderFails(t *testing.T) {
	t.Parallel()
	_, err := NewClusterInfoReader(fake.NewSimpleClientset()).ClusterInfo(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("without the ConfigMap: %v", err)
	}
	_, err = NewClusterInfoReader(fake.NewSimpleClientset(clusterInfoMap(nil))).ClusterInfo(t.Context())
	if !errors.Is(err, errNoKubeconfig) {
		t.Errorf("without the key: %v", err)
	}
	cm := clusterInfoMap(map[string]string{"kubeconfig": clusterInfo(testServer, nil)})
	_, err = NewClusterInfoReader(fake.NewSimpleClientset(cm)).ClusterInfo(t.Context())
	if !errors.Is(err, errNoCA) {
		t.Errorf("without CA: %v", err)
	}
}
