//go:build linux

package system

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const (
	// clusterTag is the tag by which the tests' instances are told apart.
	clusterTag = "dynk8s.du5t1n.me/cluster"
	// patience is how long anything that should happen may take on a machine
	// that is busy with other tests.
	patience = 90 * time.Second
	poll     = 100 * time.Millisecond
)

// world is what one test has for itself.
type world struct {
	t         testing.TB
	ctx       context.Context
	name      string
	namespace string
	stack     *stack.Stack
	ec2       *ec2world.World
	path      stack.EventPath
	client    kubernetes.Interface
	pool      []keys.Key
	replicas  int
}

var worlds atomic.Int32

// newWorld makes a namespace and an event path on the shared stack.
func newWorld(t testing.TB, options ...stack.PathOption) *world {
	t.Helper()
	return newWorldOn(t, shared.stack, options...)
}

// newWorldOn does so on a stack of the test's own.
func newWorldOn(t testing.TB, s *stack.Stack, options ...stack.PathOption) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	name := worldName(t.Name())
	restConfig, err := s.RESTConfig()
	must(t, err)
	client, err := kubernetes.NewForConfig(restConfig)
	must(t, err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	path, err := s.NewPath(ctx, name, options...)
	must(t, err)
	return &world{t: t, ctx: ctx, name: name, namespace: name, stack: s, ec2: ec2world.New(s), path: path, client: client}
}

// worldName makes a DNS label of a test's name, different for each world.
func worldName(test string) string {
	label := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimPrefix(test, "Test")))
	label = fmt.Sprintf("w%d-%s", worlds.Add(1), label)
	return strings.Trim(label[:min(len(label), 40)], "-")
}

// addKeys puts n more keys into the pool.
func (w *world) addKeys(n int) {
	w.t.Helper()
	added, err := keys.Add(w.ctx, w.client, w.namespace, len(w.pool)+1, len(w.pool)+n)
	must(w.t, err)
	for _, k := range added {
		secrets.add("private key of "+k.Name, k.PrivateKey)
		secrets.add("configuration of "+k.Name, k.Config)
	}
	w.pool = append(w.pool, added...)
}

// launch launches n instances that match the test's profile, and announces
// nothing.
func (w *world) launch(n int) []instance.ID {
	w.t.Helper()
	ids, err := w.ec2.LaunchMany(w.ctx, int32(n), map[string]string{clusterTag: w.name, "Name": "k8s-worker"})
	must(w.t, err)
	return ids
}

func (w *world) announce(state instance.State, ids ...instance.ID) {
	w.t.Helper()
	for _, id := range ids {
		must(w.t, w.ec2.Announce(w.ctx, w.path, id, state))
	}
}

// terminate ends the instances and announces it.
func (w *world) terminate(ids ...instance.ID) {
	w.t.Helper()
	must(w.t, w.ec2.Terminate(w.ctx, ids...))
	w.announce(instance.Terminated, ids...)
}

// configText is the configuration of the test's daemons. What stands in extra
// is added at the top level.
func (w *world) configText(extra string) string {
	return fmt.Sprintf(`queue: {url: %q, visibilityTimeout: 10s, waitTime: 2s}
profiles:
  - name: worker
    selector:
      - {key: %q, values: [%q]}
      - {key: Name, values: ["k8s-*"]}
    node:
      labels: {example.org/Role: worker}
      taints: [{key: example.org/cloud, value: aws, effect: PreferNoSchedule}]
      restrictedLabels: {node-role.kubernetes.io/burst: ""}
      restrictedTaints: [{key: example.org/untrusted, value: "yes", effect: PreferNoSchedule}]
kubernetes: {kubeconfig: %q, namespace: %q, qps: 500, burst: 1000}
artifacts: {address: "127.0.0.1:0", identity: {required: true, accounts: ["000000000000"], regions: [us-east-2], extraCertificates: [%q]}}
certificates: {approve: true, group: %q}
operations: {address: "127.0.0.1:0"}
log: {level: debug}
%s`, w.path.QueueURL, clusterTag, w.name, w.stack.Kubeconfig(), w.namespace,
		w.identityCertificate(), w.group(), extra)
}

// group is the group of the bootstrap tokens of this test's daemons. Each test
// has its own, as each of several daemons of one cluster must.
func (w *world) group() string { return "system:bootstrappers:dynk8s:" + w.name }

// identityCertificate returns the path of the certificate of those who sign
// this test's identity documents.
func (w *world) identityCertificate() string {
	w.t.Helper()
	file := filepath.Join(w.dir(), "identity.pem")
	content, err := w.ec2.CertificatePEM()
	must(w.t, err)
	must(w.t, os.WriteFile(file, content, 0o600))
	return file
}

// dir is where this test's daemons have their files.
func (w *world) dir() string {
	w.t.Helper()
	dir := filepath.Join(shared.logs, w.name)
	must(w.t, os.MkdirAll(dir, 0o700))
	return dir
}

// slowReconcile leaves all to the events: the first pass is made at the start
// and no second one within the test.
const slowReconcile = "reconcile: {interval: 1h}\n"

// start runs a daemon with extra configuration and waits until it is ready. It
// is stopped when the test ends, and must then end well.
func (w *world) start(extra string) *daemon.Daemon {
	w.t.Helper()
	w.replicas++
	return w.startNamed(fmt.Sprintf("replica-%d", w.replicas), w.configText(extra), nil)
}

// startNamed runs a daemon whose environment has overrides.
func (w *world) startNamed(name, config string, overrides map[string]string) *daemon.Daemon {
	w.t.Helper()
	dir := w.dir()
	env := w.stack.Env()
	maps.Copy(env, overrides)
	list := []string{"HOME=" + dir, "GORACE=halt_on_error=0 exitcode=66"}
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	d, err := daemon.Start(ctx, daemon.Options{Program: shared.program, Dir: dir, Name: name, Config: config, Env: list, TLS: true})
	must(w.t, err)
	w.t.Cleanup(func() { w.stop(d) })
	must(w.t, d.Ready(ctx))
	return d
}

// stop ends a daemon that still runs and checks that it ends well and in time.
func (w *world) stop(d *daemon.Daemon) {
	w.t.Helper()
	if !d.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	code, err := d.Stop(ctx)
	if err != nil || code != 0 {
		w.t.Errorf("the daemon ended with code %d, %v; its log is %s", code, err, d.LogFile())
		if w.t.Failed() {
			content, _ := d.Log() // for the reader of the failure only
			w.t.Logf("%s", tail(content, 4000))
		}
	}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// eventually waits until f returns nil.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	w.eventuallyWithin(patience, what, f)
}

func (w *world) eventuallyWithin(limit time.Duration, what string, f func() error) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(poll)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
