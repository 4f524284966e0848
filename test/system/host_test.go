//go:build linux

package system

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/parts"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const hostLabel = "dynk8s.du5t1n.me/host" // written out on purpose, as in package keys

// operator runs the commands about hosts, with the rights of docs/hosts-rbac.yaml
// and no others.
type operator struct {
	*world
	daemon     *daemon.Daemon
	kubeconfig string
}

// operatorRights applies docs/hosts-rbac.yaml to the shared stack, once.
var operatorRights = sync.OnceValue(func() error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	return kubectl(context.Background(), shared.stack, "apply", "-f", filepath.Join(root, "docs", "hosts-rbac.yaml"))
})

func kubectl(ctx context.Context, s *stack.Stack, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Programs(), "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl: %w\n%s", err, out)
	}
	return nil
}

func (w *world) operator(d *daemon.Daemon) operator {
	w.t.Helper()
	must(w.t, operatorRights())
	config, err := clientcmd.LoadFromFile(w.stack.Kubeconfig())
	must(w.t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "alice", []string{"dynk8s:hosts"}
	}
	o := operator{w, d, filepath.Join(w.dir(), "alice.conf")}
	must(w.t, clientcmd.WriteToFile(*config, o.kubeconfig))
	return o
}

// host runs `host` with arguments. Its output holds nothing secret, whatever it
// does: searchLogs looks for that.
func (o operator) host(args ...string) (string, error) {
	o.t.Helper()
	args = append([]string{"host", args[0], "--config", o.daemon.ConfigFile(), "--kubeconfig", o.kubeconfig}, args[1:]...)
	cmd := exec.CommandContext(o.ctx, shared.program, args...)
	cmd.Env = o.daemon.Options().Env
	out, err := cmd.CombinedOutput()
	log, openErr := os.OpenFile(filepath.Join(o.dir(), "host.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(o.t, openErr)
	_, writeErr := log.Write(out)
	must(o.t, errors.Join(writeErr, log.Close()))
	return string(out), err
}

// hostTokens returns the token Secrets of a host.
func (w *world) hostTokens(name string) ([]corev1.Secret, error) {
	list, err := w.client.CoreV1().Secrets(metav1.NamespaceSystem).List(w.ctx, metav1.ListOptions{LabelSelector: hostLabel + "=" + name})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		secrets.add("token secret of host "+name, string(s.Data["token-secret"]))
	}
	return list.Items, nil
}

func (w *world) hostTokenCount(name string, want int) error {
	tokens, err := w.hostTokens(name)
	if err == nil && len(tokens) != want {
		err = fmt.Errorf("%d tokens, want %d", len(tokens), want)
	}
	return err
}

// joinHost joins with the files in a folder and waits for the Node to be Ready.
func (w *world) joinHost(name, dir string) *join.Node {
	w.t.Helper()
	discovery, err := os.ReadFile(filepath.Join(dir, "discovery.conf"))
	must(w.t, err)
	configuration, err := os.ReadFile(filepath.Join(dir, "join.yaml"))
	must(w.t, err)
	node := &join.Node{
		Dir: filepath.Join(shared.logs, w.name, name), Programs: w.stack.Programs(),
		Discovery: discovery, JoinConfiguration: configuration,
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
		n, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not Ready")
	})
	return node
}

// A host that is not in EC2 joins by what `host add` writes, with the real
// kubeadm and kubelet; its token is then revoked, and `host remove` takes the
// Node back. A token that was stolen meanwhile becomes no other Node.
func TestHostJoins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	d := w.start("reconcile: {interval: 1s}\n") // passes must leave hosts alone
	o := w.operator(d)
	name := "host-" + w.name
	dir := filepath.Join(w.dir(), "worker")
	add := []string{"add", "--profile", "worker", "--node-ip", "10.98.0.7", "--output", dir, name}

	out, err := o.host(add...)
	if err != nil || !strings.Contains(out, "of host "+name+": made, lives until ") {
		t.Fatalf("%v, %s", err, out)
	}
	first, err := os.ReadFile(filepath.Join(dir, "join.yaml"))
	must(t, err)
	token := tokenIn(t, first)
	out, err = o.host(add...)
	if err != nil || strings.Contains(out, "made") {
		t.Fatalf("a second time: %v, %s", err, out)
	}
	second, err := os.ReadFile(filepath.Join(dir, "join.yaml"))
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Error("the second time it wrote another join configuration")
	}
	must(t, w.hostTokenCount(name, 1))
	w.stolenHostToken(token, name)

	node := w.joinHost(name, dir)
	w.checkHost(name)
	w.eventually("token revoked", func() error { return w.hostTokenCount(name, 0) })
	out, err = o.host(add...)
	if err == nil || !strings.Contains(out, "is Ready, and kubeadm refuses to join beside it") {
		t.Errorf("beside a Ready node: %v, %s", err, out)
	}
	out, err = o.host("list")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), name+" - - Ready") {
		t.Errorf("list: %v, %s", err, out)
	}
	must(t, node.Stop())
	for _, want := range []string{"no token, node deleted", "no token, no node"} {
		if out, err = o.host("remove", name); err != nil || !strings.Contains(out, want) {
			t.Errorf("remove: %v, %s, want %q", err, out, want)
		}
	}
	if _, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node: %v", err)
	}
}

// stolenHostToken tries what a thief might ask for with the token.
func (w *world) stolenHostToken(token, name string) {
	w.t.Helper()
	thief := w.bearer(token)
	for what, subject := range map[string]pkix.Name{
		"another host":      {CommonName: "system:node:other", Organization: []string{"system:nodes"}},
		"an instance":       {CommonName: "system:node:i-0123456789abcdef0", Organization: []string{"system:nodes"}},
		"an administrator":  {CommonName: "system:node:" + name, Organization: []string{"system:nodes", "system:masters"}},
		"the control plane": {CommonName: "system:node:control-plane", Organization: []string{"system:nodes"}},
	} {
		request := w.request(thief, subject)
		if request == nil {
			continue // refused at the door
		}
		w.eventually(what+" is denied", func() error {
			return decided(w.ctx, thief, request.Name, certificatesv1.CertificateDenied, false)
		})
	}
	if _, err := thief.CoreV1().Secrets(metav1.NamespaceSystem).List(w.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		w.t.Errorf("listing Secrets with the token: %v", err)
	}
}

// checkHost checks what the join configuration was for.
func (w *world) checkHost(name string) {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	must(w.t, err)
	if n.Spec.ProviderID != "" || n.Labels["dynk8s.du5t1n.me/ec2-instance-id"] != "" {
		w.t.Errorf("provider id %q, labels %v: it is no instance", n.Spec.ProviderID, n.Labels)
	}
	if n.Labels[hostLabel] != name || n.Labels["example.org/Role"] != "worker" {
		w.t.Errorf("labels %v", n.Labels)
	}
	tainted, addressed := false, false
	for _, taint := range n.Spec.Taints {
		tainted = tainted || (taint.Key == "example.org/cloud" && taint.Value == "aws")
	}
	for _, a := range n.Status.Addresses {
		addressed = addressed || (a.Type == corev1.NodeInternalIP && a.Address == "10.98.0.7")
	}
	if !tainted || !addressed {
		w.t.Errorf("taints %v, addresses %v", n.Spec.Taints, n.Status.Addresses)
	}
}

// Removed before it joined, a host's token is worth nothing, and Nodes that
// host add did not make stay.
func TestHostRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	o := w.operator(w.start(slowReconcile))
	name := "host-" + w.name
	dir := filepath.Join(w.dir(), "worker")
	out, err := o.host("add", "--output", dir, "--ttl", "10m", name)
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	configuration, err := os.ReadFile(filepath.Join(dir, "join.yaml"))
	must(t, err)
	bearer := w.bearer(tokenIn(t, configuration))
	_, err = w.client.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	if out, err = o.host("remove", name); err == nil || !strings.Contains(out, "revoked, node not deleted") || !strings.Contains(out, "--force") {
		t.Errorf("%v, %s", err, out)
	}
	must(t, w.hostTokenCount(name, 0))
	w.eventually("the token is refused", func() error {
		_, err := bearer.CertificatesV1().CertificateSigningRequests().List(w.ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return fmt.Errorf("the API server says %w", err)
	})
	if out, err = o.host("remove", "--force", name); err != nil || !strings.Contains(out, "node deleted") {
		t.Errorf("%v, %s", err, out)
	}
}

// A seed for cloud-init holds the same, and what is secret only for its owner.
func TestHostSeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, parts.Debian(w.ctx, os.Stderr, "cloud-init"))
	o := w.operator(w.start(slowReconcile))
	name := "host-" + w.name
	script := filepath.Join(w.dir(), "setup.sh")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o600))
	dir := filepath.Join(w.dir(), "seed")
	out, err := o.host("add", "--seed", dir, "--setup", script, name)
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	t.Cleanup(func() { _, _ = o.host("remove", name) })
	must(t, w.hostTokenCount(name, 1))
	for _, file := range []string{"user-data", "meta-data"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	check := exec.CommandContext(w.ctx, "cloud-init", "schema", "--config-file", filepath.Join(dir, "user-data"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("cloud-init refuses the user data: %v\n%s", err, out)
	}
}
