package keys

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// ByHolder returns the key Secrets of a namespace that an instance holds.
func ByHolder(ctx context.Context, client kubernetes.Interface, namespace string) (map[instance.ID][]corev1.Secret, error) {
	list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + Type})
	if err != nil {
		return nil, err
	}
	held := map[instance.ID][]corev1.Secret{}
	for _, s := range list.Items {
		if id := s.Labels[InstanceLabel]; id != "" {
			held[instance.ID(id)] = append(held[instance.ID(id)], s)
		}
	}
	return held, nil
}

// Tokens returns the bootstrap token Secrets that were made for an instance.
func Tokens(ctx context.Context, client kubernetes.Interface, id instance.ID) ([]corev1.Secret, error) {
	list, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: InstanceLabel + "=" + string(id),
		FieldSelector: "type=bootstrap.kubernetes.io/token",
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
