//go:build linux

package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/faultproxy"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// throughAPIProxy starts a daemon that asks the API server through a proxy of
// its own. The rules are made before it starts.
func (w *world) throughAPIProxy(extra string, rules func(*faultproxy.Proxy)) *daemon.Daemon {
	w.t.Helper()
	w.replicas++
	name := fmt.Sprintf("replica-%d", w.replicas)
	config, err := w.stack.RESTConfig()
	must(w.t, err)
	kubeconfig := filepath.Join(w.t.TempDir(), "kubeconfig")
	proxy, err := faultproxy.Kubernetes(config, kubeconfig)
	must(w.t, err)
	w.t.Cleanup(proxy.Stop)
	rules(proxy)
	return w.startNamed(name, strings.Replace(w.configText(extra), w.stack.Kubeconfig(), kubeconfig, 1), nil)
}

// The API server refuses writes in every way it has, and loses answers, to two
// replicas that handle twenty instances: each ends with one key and one token,
// and all is taken back at the end.
func TestAPIServerRefusesEveryNthWrite(t *testing.T) {
	t.Parallel()
	const instances = 20
	w := newWorld(t, stack.MaxReceiveCount(50))
	w.addKeys(instances + 2)
	var rules []*faultproxy.Rule
	breakWrites := func(p *faultproxy.Proxy) {
		trouble := faultproxy.InTurn(
			faultproxy.Status(http.StatusConflict, "Conflict"),
			faultproxy.LoseAnswer(),
			faultproxy.Busy(),
			faultproxy.Status(http.StatusInternalServerError, "InternalError"),
			faultproxy.Refuse(),
			faultproxy.CutAnswer(),
		)
		for _, verb := range []string{"create", "update", "delete"} {
			rules = append(rules, p.On(verb+" secrets", faultproxy.Every(3), trouble))
		}
	}
	const reconcile = "reconcile: {interval: 5s}\n"
	replicas := []*daemon.Daemon{w.throughAPIProxy(reconcile, breakWrites), w.throughAPIProxy(reconcile, breakWrites)}
	ids := w.launch(instances)
	random := newRandom(t)
	w.announceShuffled(random, instance.Running, 2, ids)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	w.eventually("served", func() error { return w.eachServed(replicas, ids) })
	w.eventuallyWithin(4*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	must(t, w.provisioned(ids...))

	must(t, w.ec2.Terminate(w.ctx, ids...))
	w.announceShuffled(random, instance.Terminated, 2, ids)
	w.eventually("taken back", func() error { return w.takenBack(ids...) })
	w.eventuallyWithin(4*time.Minute, "queues empty", func() error { return w.queuesHold(0, 0) })
	hits := 0
	for _, rule := range rules {
		hits += rule.Hits()
	}
	t.Logf("%d writes went wrong", hits)
	if hits < instances {
		t.Errorf("only %d writes went wrong", hits)
	}
	for _, d := range replicas {
		if !d.Running() {
			t.Error("a daemon ended because of the API server")
		}
	}
}

// eachServed returns nil when every instance gets its key's configuration from
// one replica or the other, and no two the same.
func (w *world) eachServed(replicas []*daemon.Daemon, ids []instance.ID) error {
	seen := map[string]instance.ID{}
	for i, id := range ids {
		config, err := w.fetch(replicas[i%len(replicas)], "wireguard/config", id, http.StatusOK)
		if err != nil {
			return err
		}
		if other, twice := seen[string(config)]; twice {
			w.t.Fatalf("%s and %s were served the same key", id, other)
		}
		seen[string(config)] = id
	}
	return nil
}

// Without cluster-info, or without the CA in it, the discovery kubeconfig is
// answered with "try again later" and the other artifacts as ever.
func TestClusterInfoIsMissingOrBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	var proxy *faultproxy.Proxy
	d := w.throughAPIProxy(slowReconcile, func(p *faultproxy.Proxy) { proxy = p })
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })

	for name, fault := range map[string]faultproxy.Fault{
		"missing":    faultproxy.Status(http.StatusNotFound, "NotFound"),
		"forbidden":  faultproxy.Status(http.StatusForbidden, "Forbidden"),
		"without CA": w.clusterInfoWithoutCA(),
	} {
		rule := proxy.On("get configmaps cluster-info", faultproxy.Always(), fault)
		w.answersLater(d, "kubeadm/kubeconfig", id)
		for _, artifact := range []string{"wireguard/config", "kubeadm/join"} {
			if _, err := w.fetch(d, artifact, id, http.StatusOK); err != nil {
				t.Errorf("cluster-info %s: %v", name, err)
			}
		}
		befell(t, rule, 1)
		rule.End()
	}
	if _, err := w.fetch(d, "kubeadm/kubeconfig", id, http.StatusOK); err != nil {
		t.Errorf("with cluster-info again: %v", err)
	}
}

// clusterInfoWithoutCA is the real cluster-info, but for its CA.
func (w *world) clusterInfoWithoutCA() faultproxy.Fault {
	w.t.Helper()
	info, err := w.client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(w.ctx, "cluster-info", metav1.GetOptions{})
	must(w.t, err)
	var kept []string
	for line := range strings.Lines(info.Data["kubeconfig"]) {
		if !strings.Contains(line, "certificate-authority-data") {
			kept = append(kept, line)
		}
	}
	info.Data["kubeconfig"] = strings.Join(kept, "")
	info.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
	content, err := json.Marshal(info)
	must(w.t, err)
	return faultproxy.Respond(faultproxy.Answer{
		Code: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Content: content,
	})
}

// answersLater checks that a route answers 503 with Retry-After and gives no
// reason.
func (w *world) answersLater(d *daemon.Daemon, artifact string, id instance.ID) {
	w.t.Helper()
	path := "/" + artifact + "/" + string(id)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, d.ArtifactsURL()+path, nil)
	must(w.t, err)
	document, err := w.ec2.Document(w.ctx, id)
	must(w.t, err)
	req.Header.Set("Authorization", "Instance-Identity "+document)
	resp, err := d.Client().Do(req)
	must(w.t, err)
	defer func() { _ = resp.Body.Close() }() // read to the end below
	body, err := io.ReadAll(resp.Body)
	must(w.t, err)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || bytes.Contains(body, []byte("cluster-info")) {
		w.t.Errorf("%s answers %d, Retry-After %q: %s", path, resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
}

// Secrets that are no good as keys are passed over, with a reason where an
// operator meant them to be keys, and are left as they are.
func TestSecretsThatAreNoKeysArePassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secretsOf := w.client.CoreV1().Secrets(w.namespace)
	odd := map[string]func(*corev1.Secret){
		"a-without-label":   func(s *corev1.Secret) { s.Labels = nil },
		"a-without-config":  func(s *corev1.Secret) { s.Data = nil },
		"a-with-empty":      func(s *corev1.Secret) { s.Data[keys.ConfigKey] = nil },
		"a-without-address": func(s *corev1.Secret) { s.Data[keys.ConfigKey] = []byte("[Interface]\nPrivateKey = none\n") },
		"a-of-another-type": func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
	}
	versions := map[string]string{}
	for name, spoil := range odd {
		key, err := keys.New(60000)
		must(t, err)
		key.Name = name
		s := key.Secret(w.namespace)
		spoil(s)
		made, err := secretsOf.Create(w.ctx, s, metav1.CreateOptions{})
		must(t, err)
		versions[name] = made.ResourceVersion
	}
	d := w.start(slowReconcile)
	ids := w.launch(2)
	w.announce(instance.Running, ids...)
	w.eventually("exhaustion told", func() error { return w.sawEvent("WireGuardKeysExhausted") })
	must(t, w.takenBack(ids...))
	w.addKeys(2)
	w.eventually("provisioned from the good ones", func() error { return w.provisioned(ids...) })
	for name, version := range versions {
		s, err := secretsOf.Get(w.ctx, name, metav1.GetOptions{})
		must(t, err)
		if s.ResourceVersion != version {
			t.Errorf("%s was changed", name)
		}
	}
	for _, name := range []string{"a-without-config", "a-with-empty", "a-without-address"} {
		must(t, w.passedOver(d, name))
	}
}

// passedOver returns nil when a line of the log says that a key cannot be used
// and why.
func (w *world) passedOver(d *daemon.Daemon, name string) error {
	content, err := d.Log()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(content) {
		var entry struct{ Level, Msg, Key, Err string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "wireguard key is passed over" && entry.Key == name {
			if entry.Level != "WARN" || entry.Err == "" {
				return fmt.Errorf("the line about %s has level %s and reason %q", name, entry.Level, entry.Err)
			}
			return nil
		}
	}
	return errors.New("no line says that " + name + " is passed over")
}
