//go:build linux

package system

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// fastReconcile makes a pass every second.
const fastReconcile = "reconcile: {interval: 1s, goneGrace: 1m}\n"

// sawEvent returns nil once the test's namespace has a Kubernetes Event with
// that reason.
func (w *world) sawEvent(reason string) error {
	list, err := w.client.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s among %d", reason, len(list.Items))
}

// What a hand removes, the next pass puts back, while the instance lives.
func TestDamageByHandIsRepaired(t *testing.T) {
	t.Parallel()
	damages := map[string]func(w *world, token, key *corev1.Secret) error{
		"token deleted": func(w *world, token, _ *corev1.Secret) error {
			return w.client.CoreV1().Secrets(token.Namespace).Delete(w.ctx, token.Name, metav1.DeleteOptions{})
		},
		"label of the token removed": func(w *world, token, _ *corev1.Secret) error {
			delete(token.Labels, keys.InstanceLabel)
			_, err := w.client.CoreV1().Secrets(token.Namespace).Update(w.ctx, token, metav1.UpdateOptions{})
			return err
		},
		"label of the key emptied": func(w *world, _, key *corev1.Secret) error {
			key.Labels[keys.InstanceLabel] = ""
			_, err := w.client.CoreV1().Secrets(key.Namespace).Update(w.ctx, key, metav1.UpdateOptions{})
			return err
		},
		"label of the key removed": func(w *world, _, key *corev1.Secret) error {
			delete(key.Labels, keys.InstanceLabel)
			_, err := w.client.CoreV1().Secrets(key.Namespace).Update(w.ctx, key, metav1.UpdateOptions{})
			return err
		},
		"a second key labelled": func(w *world, _, key *corev1.Secret) error {
			for _, k := range w.pool {
				if k.Name == key.Name {
					continue
				}
				other, err := w.client.CoreV1().Secrets(w.namespace).Get(w.ctx, k.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				other.Labels[keys.InstanceLabel] = key.Labels[keys.InstanceLabel]
				_, err = w.client.CoreV1().Secrets(w.namespace).Update(w.ctx, other, metav1.UpdateOptions{})
				return err
			}
			return nil
		},
		"token deleted and label emptied": func(w *world, token, key *corev1.Secret) error {
			key.Labels[keys.InstanceLabel] = ""
			if _, err := w.client.CoreV1().Secrets(key.Namespace).Update(w.ctx, key, metav1.UpdateOptions{}); err != nil {
				return err
			}
			return w.client.CoreV1().Secrets(token.Namespace).Delete(w.ctx, token.Name, metav1.DeleteOptions{})
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.addKeys(3)
			w.start(fastReconcile)
			id := w.launch(1)[0]
			w.announce(instance.Running, id)
			w.eventually("provisioned", func() error { return w.provisioned(id) })
			held, err := w.keysOf()
			must(t, err)
			tokens, err := w.tokensOf(id)
			must(t, err)
			key := held[id][0]
			must(t, damage(w, &tokens[0], &key))
			w.eventually("repaired", func() error {
				if err := w.provisioned(id); err != nil {
					return err
				}
				held, err := w.keysOf()
				if err == nil && held[id][0].Name != key.Name {
					err = fmt.Errorf("it holds %s now, and held %s before", held[id][0].Name, key.Name)
				}
				return err
			})
			w.terminate(id)
			w.eventually("taken back", func() error { return w.takenBack(id) })
		})
	}
}

// No event comes at all: the pass finds what lives and what died.
func TestLostEventsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(3)
	w.start(fastReconcile)
	ids := w.launch(2)
	w.eventually("provisioned without an event", func() error { return w.provisioned(ids...) })
	must(t, w.ec2.Terminate(w.ctx, ids[0]))
	w.eventually("taken back without an event", func() error { return w.takenBack(ids[0]) })
	must(t, w.provisioned(ids[1]))
}

// A living instance whose tags change, that stops, or whose events are
// nonsense, keeps what it has.
func TestNothingIsTakenFromTheLiving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(3)
	w.start("reconcile: {interval: 1s, goneGrace: 1m}\n")
	ids := w.launch(2)
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	must(t, w.ec2.Untag(w.ctx, ids[0], clusterTag))
	must(t, w.ec2.Stop(w.ctx, ids[1]))
	w.announce(instance.Stopping, ids[1])
	w.announce(instance.Stopped, ids[1])
	w.eventually("events settled", func() error { return w.queuesHold(0, 0) })
	w.survivesPasses(3, ids...)
}

// survivesPasses waits until n more passes were made and checks that the
// instances kept their keys and tokens. A pass shows itself by giving another
// instance what it needs.
func (w *world) survivesPasses(n int, ids ...instance.ID) {
	w.t.Helper()
	for range n {
		witness := w.launch(1)[0]
		w.eventually("a pass", func() error { return w.provisioned(append(ids, witness)...) })
		must(w.t, w.ec2.Terminate(w.ctx, witness))
		w.eventually("the next pass", func() error { return w.takenBack(witness) })
	}
	must(w.t, w.provisioned(ids...))
}

// An instance on its way out loses its token and its artifacts, and keeps its
// key until it is dead.
func TestShuttingDownClosesButKeepsTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	d := w.start(slowReconcile)
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	_, err := w.fetch(d, "wireguard/config", id, 200)
	must(t, err)

	w.announce(instance.ShuttingDown, id)
	w.eventually("token revoked", func() error {
		tokens, err := w.tokensOf(id)
		if err == nil && len(tokens) > 0 {
			err = fmt.Errorf("%d tokens", len(tokens))
		}
		return err
	})
	held, err := w.keysOf()
	must(t, err)
	if len(held[id]) != 1 {
		t.Errorf("the instance holds %d keys while it shuts down, want 1", len(held[id]))
	}
	_, err = w.fetch(d, "wireguard/config", id, 403)
	must(t, err)

	w.announce(instance.Running, id) // late
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	tokens, err := w.tokensOf(id)
	must(t, err)
	if len(tokens) > 0 {
		t.Error("a late running event brought the token back")
	}
	w.terminate(id)
	w.eventually("taken back", func() error { return w.takenBack(id) })
}

// The end is announced before the start, and the start again after it.
func TestTerminatedBeforeRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	w.start(slowReconcile)
	id := w.launch(1)[0]
	must(t, w.ec2.Terminate(w.ctx, id))
	w.announce(instance.Terminated, id)
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	w.announce(instance.Running, id)
	w.announce(instance.Terminated, id)
	w.announce(instance.Running, id)
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	must(t, w.takenBack(id))
}

// A Node of a dead instance goes, whatever it says of itself; another's stays.
func TestNodeOfTheDeadIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	w.start(slowReconcile)
	ids := w.launch(2)
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	nodes := w.client.CoreV1().Nodes()
	for name, providerID := range map[string]string{
		string(ids[0]):   "aws:///us-east-2a/" + string(ids[0]),   // its Node
		string(ids[1]):   "aws:///us-east-2a/i-0fedcba9876543210", // the same, but it says another's id
		"home-" + w.name: "aws:///us-east-2a/i-0fedcba9876543210", // another's
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		_, err := nodes.Create(w.ctx, node, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { _ = nodes.Delete(w.ctx, name, metav1.DeleteOptions{}) }) // may be gone, as it should
	}
	w.terminate(ids...)
	w.eventually("taken back", func() error { return w.takenBack(ids...) })
	w.eventually("the Node of the dead is gone", func() error {
		for _, id := range ids {
			if _, err := nodes.Get(w.ctx, string(id), metav1.GetOptions{}); err == nil {
				return fmt.Errorf("Node %s is still there", id)
			}
		}
		return nil
	})
	if _, err := nodes.Get(w.ctx, "home-"+w.name, metav1.GetOptions{}); err != nil {
		t.Errorf("a Node of another machine was deleted: %v", err)
	}
}
