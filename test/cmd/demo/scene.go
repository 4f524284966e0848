//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const (
	namespace  = "dynk8s-demo"
	clusterTag = "dynk8s.du5t1n.me/cluster"
	// bootstrappers is a group of our own: in a cluster that is kept another
	// provisioner may be at work.
	bootstrappers = "system:bootstrappers:dynk8s:demo"
)

// scene is all that the demonstration needs.
type scene struct {
	*timeline
	dir    string
	stack  *stack.Stack
	ec2    *ec2world.World
	client kubernetes.Interface
	// apiServer is host:port of the API server as this machine reaches it.
	apiServer string
	daemon    *daemon.Daemon
	node      *join.Node
	// ownNamespace says that there is a namespace to remove in the end.
	ownNamespace bool
}

// prepare builds what has to be built, starts the stack and the daemon, and
// makes a pool of keys.
func (s *scene) prepare(ctx context.Context) error {
	cluster, err := kubeconfigOverride()
	if err != nil {
		return err
	}
	s.raw("Building what has to be built; the first time this takes a while.")
	program, err := daemon.Build(ctx, s.dir, false)
	if err != nil {
		return err
	}
	if s.stack, err = stack.Start(ctx, stack.Options{Kubeconfig: cluster, Progress: os.Stdout}); err != nil {
		return err
	}
	s.ec2 = ec2world.New(s.stack)
	config, err := s.stack.RESTConfig()
	if err != nil {
		return err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	s.apiServer = server.Host
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	s.start()
	s.act("The operator makes a pool of WireGuard keys and starts the provisioner")
	if err := s.makePool(ctx); err != nil {
		return err
	}
	return s.startDaemon(ctx, program)
}

func (s *scene) makePool(ctx context.Context) error {
	// A namespace of an earlier demonstration, in a cluster that is kept.
	if err := s.removeNamespace(ctx); err != nil {
		return err
	}
	s.ownNamespace = true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	pool, err := keys.Add(ctx, s.client, namespace, 1, 3)
	if err != nil {
		return err
	}
	s.say("%d key Secrets are in namespace %s", len(pool), namespace)
	return nil
}

func (s *scene) removeNamespace(ctx context.Context) error {
	namespaces := s.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	return s.await(ctx, "namespace "+namespace+" removed", func() error {
		_, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

func (s *scene) startDaemon(ctx context.Context, program string) error {
	env := []string{"HOME=" + s.dir}
	for k, v := range s.stack.Env() {
		env = append(env, k+"="+v)
	}
	certificate, err := s.ec2.CertificatePEM()
	if err != nil {
		return err
	}
	certificateFile := filepath.Join(s.dir, "identity.pem")
	if err := os.WriteFile(certificateFile, certificate, 0o600); err != nil {
		return err
	}
	if err := s.stack.BindBootstrappers(ctx, bootstrappers, namespace); err != nil {
		return err
	}
	config := fmt.Sprintf(`queue: {url: %q, waitTime: 5s}
profiles:
  - name: worker
    selector:
      - {key: %q, values: [demo]}
      - {key: Name, values: ["k8s-*"]}
    node: {labels: {example.org/from: ec2}, restrictedLabels: {node-role.kubernetes.io/burst: ""}}
kubernetes: {kubeconfig: %q, namespace: %s}
artifacts: {address: "127.0.0.1:0", identity: {required: true, accounts: ["000000000000"], extraCertificates: [%q]}}
certificates: {approve: true, group: %q}
operations: {address: "127.0.0.1:0"}
`, s.stack.Path().QueueURL, clusterTag, s.stack.Kubeconfig(), namespace, certificateFile, bootstrappers)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.daemon, err = daemon.Start(ctx, daemon.Options{
		Program: program, Dir: s.dir, Name: "provisioner", Config: config, Env: env, TLS: true,
	})
	if err != nil {
		return err
	}
	if err := s.daemon.Ready(ctx); err != nil {
		return err
	}
	s.say("dynk8s-provisioner is ready: caches synced, queue answering")
	return nil
}

// close ends everything that was started.
func (s *scene) close() error {
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Stop())
	}
	if s.daemon != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
		defer cancel()
		code, err := s.daemon.Stop(ctx)
		if err == nil && code != 0 {
			err = fmt.Errorf("the provisioner ended with code %d; see %s", code, s.daemon.LogFile())
		}
		errs = append(errs, err)
	}
	// A cluster that is kept must look as before.
	if s.ownNamespace && os.Getenv(clusterVariable) != "" {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		errs = append(errs, s.removeNamespace(ctx), s.stack.UnbindBootstrappers(ctx, bootstrappers, namespace))
	}
	if s.stack != nil {
		errs = append(errs, s.stack.Stop())
	}
	return errors.Join(errs...)
}

// kubectl prints what a person would see.
func (s *scene) kubectl(ctx context.Context, args ...string) error {
	s.raw("$ kubectl " + strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, s.program("kubectl"), append([]string{"--kubeconfig", s.stack.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	s.raw(string(out))
	return err
}

func (s *scene) program(name string) string { return filepath.Join(s.stack.Programs(), name) }
