//go:build linux

package system

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// With what it fetched, and nothing else, an instance joins by the real kubeadm
// and kubelet; then its token is revoked, the endpoint closed and the Node given
// what a kubelet may not choose. When it is terminated its Node goes.
func TestInstanceJoins(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, text string) string{
		"anonymous discovery": func(_ *world, text string) string { return text },
		"token in kubeconfig": func(_ *world, text string) string {
			return strings.Replace(text, "identity: {", "kubeadm: {tokenInKubeconfig: true}, identity: {", 1)
		},
		"name by private name": func(_ *world, text string) string {
			return strings.Replace(text, "    node:\n", "    node:\n      nameTemplate: \"{{.PrivateDNSName}}\"\n", 1)
		},
		"kubeadm's own group": func(w *world, text string) string {
			return strings.Replace(text, fmt.Sprintf("certificates: {approve: true, group: %q}\n", w.group()), "", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.addKeys(1)
			must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
			d := w.startNamed("replica", change(w, w.configText(slowReconcile)), nil)
			id := w.launch(1)[0]
			w.announce(instance.Running, id)
			w.eventually("provisioned", func() error { return w.provisioned(id) })
			node := w.join(d, id)
			w.eventually("token revoked once the Node is Ready", func() error { return w.tokenRevoked(id) })
			held, err := w.keysOf()
			must(t, err)
			if len(held[id]) != 1 {
				t.Errorf("the joined instance holds %d keys, want 1", len(held[id]))
			}
			w.closedTo(d, id)
			w.eventually("restricted label and taint", func() error { return w.restricted(id) })
			w.announce(instance.Running, id) // once more: it has joined, so it needs no token
			w.eventually("settled", func() error { return w.queuesHold(0, 0) })
			must(t, w.tokenRevoked(id))

			must(t, node.Stop())
			w.terminate(id)
			w.eventually("taken back", func() error { return w.takenBack(id) })
			w.eventually("its Node is gone", func() error {
				if found, err := w.nodeOf(id); err != nil || found != nil {
					return fmt.Errorf("Node %v, %w", found, err)
				}
				return nil
			})
		})
	}
}

func (w *world) tokenRevoked(id instance.ID) error {
	tokens, err := w.tokensOf(id)
	if err == nil && len(tokens) > 0 {
		err = errors.New("the token is still there")
	}
	return err
}

// closedTo checks that all three routes refuse the instance itself.
func (w *world) closedTo(d *daemon.Daemon, id instance.ID) {
	w.t.Helper()
	for _, artifact := range artifacts {
		_, err := w.fetch(d, artifact, id, http.StatusForbidden)
		must(w.t, err)
	}
}

var artifacts = []string{"wireguard/config", "kubeadm/kubeconfig", "kubeadm/join"}

// restricted returns nil when the Node has what its kubelet may not choose.
func (w *world) restricted(id instance.ID) error {
	n, err := w.nodeOf(id)
	if err != nil || n == nil {
		return fmt.Errorf("Node %v, %w", n, err)
	}
	if _, ok := n.Labels["node-role.kubernetes.io/burst"]; !ok {
		return fmt.Errorf("labels are %v", n.Labels)
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == "example.org/untrusted" && taint.Value == "yes" && taint.Effect == corev1.TaintEffectPreferNoSchedule {
			return nil
		}
	}
	return fmt.Errorf("taints are %v", n.Spec.Taints)
}

// join joins with the artifacts as served and waits until the Node is Ready.
func (w *world) join(d *daemon.Daemon, id instance.ID) *join.Node {
	w.t.Helper()
	kubeconfig, err := w.fetch(d, "kubeadm/kubeconfig", id, http.StatusOK)
	must(w.t, err)
	configuration, err := w.fetch(d, "kubeadm/join", id, http.StatusOK)
	must(w.t, err)
	tokenIn(w.t, configuration)
	node := &join.Node{
		Dir: filepath.Join(shared.logs, w.name, string(id)), Programs: w.stack.Programs(),
		Discovery: kubeconfig, JoinConfiguration: configuration,
	}
	w.t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			w.t.Error(err)
		}
	})
	if output, err := node.Join(w.ctx); err != nil {
		w.t.Fatalf("kubeadm join: %v\n%s", err, tail([]byte(output), 2000))
	}
	w.eventually("the Node is Ready", func() error {
		found, err := w.nodeOf(id)
		if err != nil || found == nil {
			return fmt.Errorf("Node %v, %w", found, err)
		}
		for _, c := range found.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not Ready")
	})
	w.checkNode(id)
	return node
}

// nodeOf returns the Node with the instance's provider id, or nil.
func (w *world) nodeOf(id instance.ID) (*corev1.Node, error) {
	list, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range list.Items {
		if of, ok := instance.IDFromProviderID(n.Spec.ProviderID); ok && of == id {
			return &n, nil
		}
	}
	return nil, nil
}

// keyOf returns the key that the instance holds.
func (w *world) keyOf(id instance.ID) keys.Key {
	w.t.Helper()
	held, err := w.keysOf()
	must(w.t, err)
	for _, k := range w.pool {
		if len(held[id]) == 1 && k.Name == held[id][0].Name {
			return k
		}
	}
	w.t.Fatalf("instance %s holds %d keys", id, len(held[id]))
	return keys.Key{}
}

// checkNode checks what the join configuration was for.
func (w *world) checkNode(id instance.ID) {
	w.t.Helper()
	n, err := w.nodeOf(id)
	must(w.t, err)
	if want := "aws:///us-east-2a/" + string(id); n.Spec.ProviderID != want {
		w.t.Errorf("provider id is %q, want %q", n.Spec.ProviderID, want)
	}
	for label, want := range map[string]string{
		"example.org/Role":                 "worker",
		"topology.kubernetes.io/zone":      "us-east-2a",
		"dynk8s.du5t1n.me/ec2-instance-id": string(id),
	} {
		if n.Labels[label] != want {
			w.t.Errorf("label %s is %q, want %q", label, n.Labels[label], want)
		}
	}
	address := ""
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	if want := w.keyOf(id).Address; address != want {
		w.t.Errorf("the Node's address is %q, want the VPN's %q", address, want)
	}
	found := false
	for _, taint := range n.Spec.Taints {
		found = found || (taint.Key == "example.org/cloud" && taint.Effect == corev1.TaintEffectPreferNoSchedule)
	}
	if !found {
		w.t.Errorf("the Node lacks the profile's taint: %v", n.Spec.Taints)
	}
}
