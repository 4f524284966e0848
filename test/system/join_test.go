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
)

// With what it fetched, and nothing else, an instance joins by the real kubeadm
// and kubelet; then its token is revoked. When it is terminated its Node goes.
func TestInstanceJoins(t *testing.T) {
	t.Parallel()
	configs := map[string]string{
		"anonymous discovery":  "",
		"token in kubeconfig":  "artifacts: {address: \"127.0.0.1:0\", identity: {required: false}, kubeadm: {tokenInKubeconfig: true}}\n",
		"name by private name": "nameTemplate",
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.addKeys(1)
			text := w.configText(slowReconcile)
			switch config {
			case "":
			case "nameTemplate":
				text = strings.Replace(text, "    node:\n", "    node:\n      nameTemplate: \"{{.PrivateDNSName}}\"\n", 1)
			default:
				text = strings.Replace(text, "artifacts: {address: \"127.0.0.1:0\", identity: {required: false}}\n", config, 1)
			}
			d := w.startNamed("replica", text, nil)
			id := w.launch(1)[0]
			w.announce(instance.Running, id)
			w.eventually("provisioned", func() error { return w.provisioned(id) })
			node := w.join(d, id)
			w.eventually("token revoked once the Node is Ready", func() error {
				tokens, err := w.tokensOf(id)
				if err == nil && len(tokens) > 0 {
					err = errors.New("the token is still there")
				}
				return err
			})
			held, err := w.keysOf()
			must(t, err)
			if len(held[id]) != 1 {
				t.Errorf("the joined instance holds %d keys, want 1", len(held[id]))
			}
			w.announce(instance.Running, id) // once more: it has joined, so it needs no token
			w.eventually("settled", func() error { return w.queuesHold(0, 0) })
			tokens, err := w.tokensOf(id)
			must(t, err)
			if len(tokens) > 0 {
				t.Error("an instance that has joined was given a token")
			}

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
	if want := w.pool[0].Address; address != want {
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
