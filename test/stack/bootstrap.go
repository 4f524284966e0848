//go:build linux

package stack

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// superAdmin is the kubeconfig that needs no RBAC.
func (s *Stack) superAdmin() string { return filepath.Join(s.dir, "super-admin.conf") }

// bootstrapCluster puts into the cluster what `kubeadm init` puts there for
// nodes that join: kubeadm-config, kubelet-config, cluster-info and RBAC.
func (s *Stack) bootstrapCluster(ctx context.Context) error {
	kube, err := s.superClient()
	if err != nil {
		return err
	}
	if err := bindAdmins(ctx, kube); err != nil {
		return err
	}
	config, err := s.writeKubeadmConfig("upload.yaml", "/etc/kubernetes/pki")
	if err != nil {
		return err
	}
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token"}} {
		if err := s.kubeadm(ctx, append(phase, "--config="+config, "--kubeconfig="+s.Kubeconfig())...); err != nil {
			return err
		}
	}
	return deleteTokens(ctx, kube)
}

func (s *Stack) superClient() (kubernetes.Interface, error) {
	c, err := restConfig(s.superAdmin())
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(c)
}

// bindAdmins gives admin.conf its rights: its group has none until bound.
func bindAdmins(ctx context.Context, kube kubernetes.Interface) error {
	const group = "kubeadm:cluster-admins"
	_, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("binding the cluster's administrators: %w", err)
	}
	return nil
}

// deleteTokens deletes the token that kubeadm makes even where bootstrapTokens
// is empty: a test must see only the daemon's.
func deleteTokens(ctx context.Context, kube kubernetes.Interface) error {
	err := kube.CoreV1().Secrets(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken)})
	if err != nil {
		return fmt.Errorf("deleting kubeadm's own bootstrap token: %w", err)
	}
	return nil
}

// controllersAtWork returns nil once the controller manager has made the
// default ServiceAccount.
func (s *Stack) controllersAtWork(ctx context.Context) error {
	kube, err := s.superClient()
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}
