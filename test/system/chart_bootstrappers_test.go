//go:build linux

package system

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// Each of the chart's bindings for those who join is needed: without it one thing
// that `kubeadm join` does with the token is forbidden.
func TestChartBootstrappers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.newRelease()
	r.install(nil)
	joining := w.bearer(w.plainToken(w.group()))
	attempts := w.attempts(joining)
	for purpose, attempt := range attempts {
		w.eventually(purpose+" allowed", attempt)
	}
	for purpose, attempt := range attempts {
		restore := r.unbind(purpose)
		w.eventually(purpose+" forbidden", func() error {
			err := attempt()
			if apierrors.IsForbidden(err) {
				return nil
			}
			return fmt.Errorf("got %w, want it to be forbidden", errors.Join(errors.New("the answer"), err))
		})
		for other, attempt := range attempts {
			if err := attempt(); other != purpose && err != nil {
				t.Errorf("without %s also %s: %v", purpose, other, err)
			}
		}
		restore()
		w.eventually(purpose+" allowed again", attempt)
		t.Logf("%s → without it kubeadm join is forbidden that", purpose)
	}
}

// attempts are what kubeadm does, by the end of the name of the binding that
// allows it.
func (w *world) attempts(c kubernetes.Interface) map[string]func() error {
	config := func(name string) func() error {
		return func() error {
			_, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(w.ctx, name, metav1.GetOptions{})
			return err
		}
	}
	return map[string]func() error{
		"nodes-kubeadm-config": config("kubeadm-config"),
		"kubelet-config":       config("kubelet-config"),
		"get-nodes": func() error {
			_, err := c.CoreV1().Nodes().Get(w.ctx, "nobody", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
		"node-bootstrapper": func() error {
			_, err := c.CertificatesV1().CertificateSigningRequests().Get(w.ctx, "nobody", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	}
}

// unbind removes the release's binding for the purpose, and returns what puts it
// back.
func (r *release) unbind(purpose string) (restore func()) {
	r.t.Helper()
	name := r.namespace + ":" + r.account + ":" + purpose
	if purpose == "get-nodes" || purpose == "node-bootstrapper" {
		bindings := r.client.RbacV1().ClusterRoleBindings()
		b, err := bindings.Get(r.ctx, name, metav1.GetOptions{})
		must(r.t, err)
		must(r.t, bindings.Delete(r.ctx, name, metav1.DeleteOptions{}))
		return func() {
			_, err := bindings.Create(r.ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: b.Labels, Annotations: b.Annotations}, RoleRef: b.RoleRef, Subjects: b.Subjects,
			}, metav1.CreateOptions{})
			must(r.t, err)
		}
	}
	bindings := r.client.RbacV1().RoleBindings(metav1.NamespaceSystem)
	b, err := bindings.Get(r.ctx, name, metav1.GetOptions{})
	must(r.t, err)
	must(r.t, bindings.Delete(r.ctx, name, metav1.DeleteOptions{}))
	return func() {
		_, err := bindings.Create(r.ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: b.Labels, Annotations: b.Annotations}, RoleRef: b.RoleRef, Subjects: b.Subjects,
		}, metav1.CreateOptions{})
		must(r.t, err)
	}
}

// plainToken makes a bootstrap token of nobody's, with one group.
func (w *world) plainToken(group string) string {
	w.t.Helper()
	token, err := bootstraputil.GenerateBootstrapToken()
	must(w.t, err)
	secrets.add("bootstrap token", token)
	id, secret := token[:6], token[7:]
	stored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Namespace: metav1.NamespaceSystem},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: secret,
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      group,
		},
	}
	_, err = w.client.CoreV1().Secrets(metav1.NamespaceSystem).Create(w.ctx, stored, metav1.CreateOptions{})
	must(w.t, err)
	return token
}
