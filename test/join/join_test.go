//go:build linux

package join_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	tokenutil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const (
	name       = "i-0123456789abcdef0"
	providerID = "aws:///us-east-2a/i-0123456789abcdef0"
	nodeIP     = "10.99.0.7"
)

const joinConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  file: {kubeConfigPath: /etc/kubernetes/dynk8s/discovery.conf}
  tlsBootstrapToken: %s
nodeRegistration:
  name: i-0123456789abcdef0
  criSocket: unix:///var/run/crio/crio.sock
  taints: []
  kubeletExtraArgs:
  - {name: provider-id, value: "aws:///us-east-2a/i-0123456789abcdef0"}
  - {name: node-ip, value: "10.99.0.7"}
  - {name: node-labels, value: "topology.kubernetes.io/zone=us-east-2a,node.kubernetes.io/instance-type=t3.small"}
`

// TestJoin joins with artifacts written by hand: what a node needs, and that
// nothing it does reaches the machine.
func TestJoin(t *testing.T) {
	ctx := t.Context()
	s, kube := startStack(ctx, t)
	token := createToken(ctx, t, kube)
	before := machine(t)

	n := &join.Node{
		Dir: t.TempDir(), Programs: s.Programs(),
		Discovery:         clusterInfo(ctx, t, kube),
		JoinConfiguration: fmt.Appendf(nil, joinConfiguration, token),
	}
	log, err := n.Join(ctx)
	if err != nil {
		t.Fatalf("join: %v\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})

	node := awaitReady(ctx, t, kube, n.KubeletLog())
	if node.Spec.ProviderID != providerID {
		t.Errorf("provider id is %q, want %q", node.Spec.ProviderID, providerID)
	}
	if got := internalIP(node); got != nodeIP {
		t.Errorf("InternalIP is %q, want %q", got, nodeIP)
	}
	if got := node.Labels[corev1.LabelTopologyZone]; got != "us-east-2a" {
		t.Errorf("zone label is %q", got)
	}
	if after := machine(t); after != before {
		t.Errorf("the machine changed:\nbefore %s\nafter  %s", before, after)
	}
}

func startStack(ctx context.Context, t *testing.T) (*stack.Stack, kubernetes.Interface) {
	t.Helper()
	s, err := stack.Start(ctx, stack.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, client(t, s)
}

func client(t *testing.T, s *stack.Stack) kubernetes.Interface {
	t.Helper()
	c, err := s.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func createToken(ctx context.Context, t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	token, err := tokenutil.GenerateBootstrapToken()
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.BootstrapTokenSecretPrefix + token[:6]},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               token[:6],
			bootstrapapi.BootstrapTokenSecretKey:           token[7:],
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      "system:bootstrappers:kubeadm:default-node-token",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func clusterInfo(ctx context.Context, t *testing.T, kube kubernetes.Interface) []byte {
	t.Helper()
	cm, err := kube.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return []byte(cm.Data[bootstrapapi.KubeConfigKey])
}

func awaitReady(ctx context.Context, t *testing.T, kube kubernetes.Interface, kubeletLog string) (node *corev1.Node) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		node, err = kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && ready(node), ignoreNotFound(err)
	})
	if err != nil {
		log, _ := os.ReadFile(kubeletLog)
		t.Fatalf("the node does not get ready: %v\n%s", err, log)
	}
	return node
}

// ignoreNotFound: the kubelet registers its Node a moment after kubeadm is done.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func internalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// machine is what a kubelet that root runs plainly would change.
func machine(t *testing.T) string {
	t.Helper()
	var all string
	for _, sysctl := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys"} {
		b, err := os.ReadFile(filepath.Join("/proc/sys", sysctl))
		if err != nil {
			t.Fatal(err)
		}
		all += sysctl + "=" + string(b)
	}
	for _, path := range []string{"/etc/kubernetes", "/var/lib/kubelet", "/var/log/pods", "/usr/libexec/kubernetes", "/run/crio"} {
		_, err := os.Stat(path)
		all += fmt.Sprintf("%s %v\n", path, err == nil)
	}
	return all
}
