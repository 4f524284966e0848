//go:build linux

package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// release is a release of the chart in the test's namespace.
type release struct {
	*world
	helm, chart string
	// account is the name of the release's ServiceAccount and of its other
	// resources.
	account string
}

const releaseName = "dynk8s"

// newRelease is not installed yet.
func (w *world) newRelease() *release {
	w.t.Helper()
	root, err := parts.Root()
	must(w.t, err)
	helm, err := parts.Helm(w.ctx, os.Stderr)
	must(w.t, err)
	return &release{world: w, helm: helm, chart: filepath.Join(root, "charts", "dynk8s-provisioner"), account: "dynk8s-provisioner"}
}

// values are the demo's values with what is the test's own.
func (r *release) values(changes map[string]any) string {
	r.t.Helper()
	values := map[string]any{"config": map[string]any{
		"queue":      map[string]any{"url": r.path.QueueURL, "visibilityTimeout": "10s", "waitTime": "2s"},
		"kubernetes": map[string]any{"qps": 500, "burst": 1000},
		"reconcile":  map[string]any{"interval": "2s"},
		"profiles": []any{map[string]any{
			"name": "worker",
			"selector": []any{
				map[string]any{"key": clusterTag, "values": []any{r.name}},
				map[string]any{"key": "Name", "values": []any{"k8s-*"}},
			},
			"node": map[string]any{
				"labels":           map[string]any{"example.org/Role": "worker"},
				"taints":           []any{map[string]any{"key": "example.org/cloud", "value": "aws", "effect": "PreferNoSchedule"}},
				"restrictedLabels": map[string]any{"node-role.kubernetes.io/burst": ""},
				"restrictedTaints": []any{map[string]any{"key": "example.org/untrusted", "value": "yes", "effect": "PreferNoSchedule"}},
			},
		}},
		"artifacts": map[string]any{"kubeadm": map[string]any{"server": ""}, "identity": map[string]any{
			"required": true, "accounts": []any{"000000000000"}, "regions": []any{"us-east-2"},
			"extraCertificates": []any{r.identityCertificate()},
		}},
		"certificates": map[string]any{"approve": true, "group": r.group()},
		"log":          map[string]any{"level": "debug"},
	}}
	for key, change := range changes {
		values["config"].(map[string]any)[key] = change
	}
	content, err := yaml.Marshal(values)
	must(r.t, err)
	file := filepath.Join(r.dir(), "values.yaml")
	must(r.t, os.WriteFile(file, content, 0o600))
	return file
}

// run runs helm and wants it to succeed.
func (r *release) run(args ...string) string {
	r.t.Helper()
	out, err := r.tryHelm(args...)
	if err != nil {
		r.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (r *release) tryHelm(args ...string) (string, error) {
	home := filepath.Join(r.dir(), "helm")
	cmd := exec.CommandContext(r.ctx, r.helm, append(args, "--kubeconfig", r.stack.Kubeconfig(), "--namespace", r.namespace)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install installs the chart with the demo's values and the test's over them.
func (r *release) install(changes map[string]any) {
	r.t.Helper()
	r.run("install", releaseName, r.chart, "-f", filepath.Join(r.chart, "ci", "demo-values.yaml"), "-f", r.values(changes))
}

func (r *release) upgrade(changes map[string]any) {
	r.t.Helper()
	r.run("upgrade", releaseName, r.chart, "-f", filepath.Join(r.chart, "ci", "demo-values.yaml"), "-f", r.values(changes))
}

// mountConfig puts the release's ConfigMap where its pod would see it, the way
// the kubelet does: a new folder, and a link that is swapped.
func (r *release) mountConfig() string {
	r.t.Helper()
	stored, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(r.ctx, r.account, metav1.GetOptions{})
	must(r.t, err)
	mount := filepath.Join(r.dir(), "etc-dynk8s")
	must(r.t, os.MkdirAll(mount, 0o700))
	fresh, err := os.MkdirTemp(mount, "..")
	must(r.t, err)
	for name, content := range stored.Data {
		must(r.t, os.WriteFile(filepath.Join(fresh, name), []byte(content), 0o600))
		if link := filepath.Join(mount, name); !exists(link) {
			must(r.t, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	must(r.t, os.Symlink(filepath.Base(fresh), filepath.Join(mount, "..data_tmp")))
	must(r.t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	return filepath.Join(mount, "config.yaml")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// asServiceAccount is a kubeconfig of the release's ServiceAccount, with a token
// from the API server as its pod would have.
func (r *release) asServiceAccount() string {
	r.t.Helper()
	hour := int64(3600)
	token, err := r.client.CoreV1().ServiceAccounts(r.namespace).CreateToken(r.ctx, r.account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	must(r.t, err)
	admin, err := r.stack.RESTConfig()
	must(r.t, err)
	secrets.add("token of a ServiceAccount", token.Status.Token)
	file := filepath.Join(r.t.TempDir(), "kubeconfig") // no log: it holds the token
	must(r.t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file))
	return file
}

// startPod runs the daemon as the release's pod would: with its configuration,
// its environment and its ServiceAccount. It need not get ready.
func (r *release) startPod(name, config string, extra ...string) *daemon.Daemon {
	r.t.Helper()
	env := append(extra,
		"HOME="+r.dir(), "GORACE=halt_on_error=0 exitcode=66", "POD_NAMESPACE="+r.namespace,
		"DYNK8S_KUBERNETES_KUBECONFIG="+r.asServiceAccount(),
		"DYNK8S_ARTIFACTS_ADDRESS=127.0.0.1:0", "DYNK8S_OPERATIONS_ADDRESS=127.0.0.1:0",
		"DYNK8S_AWS_CREDENTIALSDIRECTORY=", // the keys come from the stack's environment
	)
	for k, v := range r.stack.Env() {
		env = append(env, k+"="+v)
	}
	d, err := daemon.Start(r.ctx, daemon.Options{Program: shared.program, Dir: r.dir(), Name: name, ConfigPath: config, Env: env, TLS: true})
	must(r.t, err)
	r.t.Cleanup(func() { r.stop(d) })
	return d
}

// forbidden returns the daemon's log lines about what the API server refused.
func forbidden(d *daemon.Daemon) ([]string, error) {
	log, err := d.Log()
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range bytes.Lines(log) {
		// The artifact port's answer has the word, too.
		if bytes.Contains(line, []byte("is forbidden: ")) {
			lines = append(lines, string(line))
		}
	}
	return lines, nil
}

// podTemplate is the release's Deployment, as far as it decides about restarts.
func (r *release) podTemplate() (selector, template string) {
	r.t.Helper()
	d, err := r.client.AppsV1().Deployments(r.namespace).Get(r.ctx, r.account, metav1.GetOptions{})
	must(r.t, err)
	s, err := json.Marshal(d.Spec.Selector)
	must(r.t, err)
	t, err := json.Marshal(d.Spec.Template)
	must(r.t, err)
	return string(s), string(t)
}

// readyNode makes the Node of an instance, Ready, as its kubelet would.
func (w *world) readyNode(name, providerID string) error {
	nodes := w.client.CoreV1().Nodes()
	_, err := nodes.Create(w.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make the Node: %w", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller manager writes, too
		n, err := nodes.Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		}}
		_, err = nodes.UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
		return err
	})
}
