//go:build linux

package system

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// An instance that starts gets a key and a token, can fetch its artifacts, and
// loses all of it when it is terminated; a stranger gets nothing.
func TestMainJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(3)
	d := w.start(slowReconcile)
	ours := w.launch(2)
	stranger, err := w.ec2.Launch(w.ctx, map[string]string{clusterTag: w.name, "Name": "database"})
	must(t, err)
	w.announce(instance.Pending, append(ours, stranger)...)
	w.announce(instance.Running, append(ours, stranger)...)

	w.eventually("two instances provisioned", func() error { return w.provisioned(ours...) })
	w.eventually("messages gone", func() error { return w.queuesHold(0, 0) })
	must(t, w.takenBack(stranger))

	for _, id := range ours {
		w.checkArtifacts(d, id)
	}
	for _, artifact := range []string{"wireguard/config", "kubeadm/kubeconfig", "kubeadm/join"} {
		_, err := w.fetch(d, artifact, stranger, http.StatusNotFound)
		must(t, err)
	}

	w.terminate(ours[0])
	w.eventually("the terminated one's things taken back", func() error { return w.takenBack(ours[0]) })
	must(t, w.provisioned(ours[1]))
	_, err = w.fetch(d, "wireguard/config", ours[0], http.StatusForbidden)
	must(t, err)
	w.eventually("messages gone", func() error { return w.queuesHold(0, 0) })
}

// checkArtifacts fetches all three and checks them with those who will read
// them: kubeadm, and the API server that must know the token.
func (w *world) checkArtifacts(d *daemon.Daemon, id instance.ID) {
	t := w.t
	t.Helper()
	config, err := w.fetch(d, "wireguard/config", id, http.StatusOK)
	must(t, err)
	key := w.keyWithConfig(config)
	held, err := w.keysOf()
	must(t, err)
	if held[id][0].Name != key.Name {
		t.Errorf("instance %s was served key %s but holds %s", id, key.Name, held[id][0].Name)
	}
	if held[id][0].Annotations["dynk8s.du5t1n.me/handed-out-to"] != string(id) {
		t.Errorf("key %s is not marked as handed out", key.Name)
	}

	join, err := w.fetch(d, "kubeadm/join", id, http.StatusOK)
	must(t, err)
	kubeconfig, err := w.fetch(d, "kubeadm/kubeconfig", id, http.StatusOK)
	must(t, err)
	w.validateByKubeadm(join, kubeconfig)
	for _, want := range []string{
		"provider-id", "aws:///us-east-2a/" + string(id), "node-ip", key.Address,
		"example.org/Role=worker", "topology.kubernetes.io/zone=us-east-2a", "node.kubernetes.io/instance-type=t3.small",
	} {
		if !bytes.Contains(join, []byte(want)) {
			t.Errorf("the join configuration lacks %q", want)
		}
	}
	w.authenticates(tokenIn(t, join), id)
}

func (w *world) keyWithConfig(config []byte) keys.Key {
	w.t.Helper()
	for _, k := range w.pool {
		if k.Config == string(config) {
			return k
		}
	}
	w.t.Fatal("the WireGuard configuration served is none of the pool, byte for byte")
	return keys.Key{}
}

// validateByKubeadm asks the real kubeadm. It wants the discovery file to
// exist, so the configuration is pointed at the one that was served.
func (w *world) validateByKubeadm(join, kubeconfig []byte) {
	w.t.Helper()
	dir := w.t.TempDir()
	discovery := filepath.Join(dir, "discovery.conf")
	must(w.t, os.WriteFile(discovery, kubeconfig, 0o600))
	const served = "/etc/kubernetes/dynk8s/discovery.conf"
	if !bytes.Contains(join, []byte(served)) {
		w.t.Errorf("the join configuration does not name %s", served)
	}
	file := filepath.Join(dir, "join.yaml")
	must(w.t, os.WriteFile(file, bytes.ReplaceAll(join, []byte(served), []byte(discovery)), 0o600))
	kubeadm := exec.CommandContext(w.ctx, filepath.Join(w.stack.Programs(), "kubeadm"), "config", "validate", "--config", file)
	if out, err := kubeadm.CombinedOutput(); err != nil {
		w.t.Errorf("kubeadm refuses the join configuration: %v\n%s", err, out)
	}
}

// tokenIn returns the bootstrap token of a join configuration.
func tokenIn(t testing.TB, join []byte) string {
	t.Helper()
	var c struct {
		Discovery struct {
			TLSBootstrapToken string `json:"tlsBootstrapToken"`
		} `json:"discovery"`
	}
	must(t, yaml.Unmarshal(join, &c))
	id, secret, found := strings.Cut(c.Discovery.TLSBootstrapToken, ".")
	if !found || len(id) != 6 || len(secret) != 16 {
		t.Fatal("the join configuration holds no bootstrap token")
	}
	secrets.add("token secret of "+id, secret)
	return c.Discovery.TLSBootstrapToken
}

// authenticates checks who the API server takes the token's bearer for.
func (w *world) authenticates(token string, id instance.ID) {
	w.t.Helper()
	admin, err := w.stack.RESTConfig()
	must(w.t, err)
	bearer := rest.AnonymousClientConfig(admin)
	bearer.BearerToken = token
	client, err := kubernetes.NewForConfig(bearer)
	must(w.t, err)
	var user authenticationv1.UserInfo
	w.eventually("the API server knows the token", func() error {
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(w.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		user = review.Status.UserInfo
		return nil
	})
	want := "system:bootstrap:" + token[:6]
	groups := "system:bootstrappers " + w.group() + " system:authenticated"
	if user.Username != want || strings.Join(user.Groups, " ") != groups {
		w.t.Errorf("the token of %s authenticates as %s in %v, want %s in %s", id, user.Username, user.Groups, want, groups)
	}
}

// A token lives for the profile's ttl and is renewed while its instance has not
// joined.
func TestTokenIsRenewedUntilTheJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	id := w.launch(1)[0]
	d := w.start("reconcile: {interval: 1s}\n")
	w.eventually("provisioned without an event", func() error { return w.provisioned(id) })
	tokens, err := w.tokensOf(id)
	must(t, err)
	first, err := expiration(tokens[0])
	must(t, err)
	if left := time.Until(first); left < 50*time.Minute || left > time.Hour {
		t.Errorf("the token expires in %s, want the profile's hour", left)
	}

	soon := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	token := tokens[0].DeepCopy()
	token.Data["expiration"] = []byte(soon.Format(time.RFC3339))
	_, err = w.client.CoreV1().Secrets(token.Namespace).Update(w.ctx, token, metav1.UpdateOptions{})
	must(t, err)
	w.eventually("token renewed", func() error {
		tokens, err := w.tokensOf(id)
		if err != nil {
			return err
		}
		if len(tokens) != 1 || !bytes.Equal(tokens[0].Data["token-secret"], token.Data["token-secret"]) {
			return fmt.Errorf("%d tokens, or another one", len(tokens))
		}
		expires, err := expiration(tokens[0])
		if err == nil && !expires.After(soon) {
			err = fmt.Errorf("expires at %s", expires)
		}
		return err
	})
	if !d.Running() {
		t.Error("the daemon ended")
	}
}
