//go:build linux

package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
	"dynk8s.du5t1n.me/provisioner/test/imds"
	"dynk8s.du5t1n.me/provisioner/test/keys"
	"dynk8s.du5t1n.me/provisioner/test/parts"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

const (
	// Namespace is where the daemon's keys are.
	Namespace  = "dynk8s-boot"
	clusterTag = "dynk8s.du5t1n.me/cluster"
	group      = "system:bootstrappers:dynk8s:boot"
)

// World is a cluster with a daemon and a VPN server, and a cloud.
type World struct {
	Stack  *stack.Stack
	EC2    *ec2world.World
	Client kubernetes.Interface
	Daemon *daemon.Daemon

	site *site
	dir  string

	mu        sync.Mutex
	pool      []keys.Key
	instances []*Instance
}

// Options say how a World is started.
type Options struct {
	// Dir is a folder for logs, not below /etc, /var, /usr or /run.
	Dir string
	// Program is what daemon.Build returned.
	Program string
	// Progress gets a line a step. Nil: silence.
	Progress io.Writer
}

// Start builds what has to be built and starts a World without keys and
// instances. On an error nothing of it runs.
func Start(ctx context.Context, o Options) (_ *World, err error) {
	w := &World{dir: o.Dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	p, err := findPrograms(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	if w.Stack, err = stack.Start(ctx, stack.Options{Progress: o.Progress}); err != nil {
		return nil, err
	}
	p.controlPlane = w.Stack.Programs()
	w.EC2 = ec2world.New(w.Stack)
	config, err := w.Stack.RESTConfig()
	if err != nil {
		return nil, err
	}
	if w.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := w.startDaemon(ctx, o.Program); err != nil {
		return nil, err
	}
	apiServer, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	artifacts, err := url.Parse(w.Daemon.ArtifactsURL())
	if err != nil {
		return nil, err
	}
	w.site, err = openSite(ctx, o.Dir, p, apiServer.Host, artifacts.Host)
	return w, err
}

func findPrograms(ctx context.Context, progress io.Writer) (p programs, err error) {
	if err := parts.Debian(ctx, progress, "ip", "wg", "wg-quick"); err != nil {
		return p, err
	}
	root, err := parts.Root()
	if err != nil {
		return p, err
	}
	p.joinScript = filepath.Join(root, "userdata", "dynk8s-join")
	p.wireguardGo, err = parts.WireGuardGo(ctx, progress)
	return p, err
}

func (w *World) startDaemon(ctx context.Context, program string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := w.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.Stack.BindBootstrappers(ctx, group, Namespace); err != nil {
		return err
	}
	certificate, err := w.EC2.CertificatePEM()
	if err != nil {
		return err
	}
	certificateFile := filepath.Join(w.dir, "identity.pem")
	if err := os.WriteFile(certificateFile, certificate, 0o600); err != nil {
		return err
	}
	env := []string{"HOME=" + w.dir}
	for k, v := range w.Stack.Env() {
		env = append(env, k+"="+v)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w.Daemon, err = daemon.Start(ctx, daemon.Options{
		Program: program, Dir: w.dir, Name: "provisioner", Env: env, TLS: true, Names: []string{endpointName},
		Config: w.config(certificateFile),
	})
	if err != nil {
		return err
	}
	return w.Daemon.Ready(ctx)
}

func (w *World) config(certificateFile string) string {
	return fmt.Sprintf(`queue: {url: %q, waitTime: 5s}
profiles:
  - name: worker
    selector:
      - {key: %q, values: [boot]}
    node:
      labels: {example.org/from: ec2}
      taints: [{key: example.org/cloud, value: aws, effect: PreferNoSchedule}]
      restrictedLabels: {node-role.kubernetes.io/burst: ""}
kubernetes: {kubeconfig: %q, namespace: %s}
artifacts:
  address: "127.0.0.1:0"
  identity: {required: true, accounts: ["000000000000"], regions: [us-east-2], extraCertificates: [%q]}
  kubeadm: {server: "https://%s"}
certificates: {approve: true, group: %q}
operations: {address: "127.0.0.1:0"}
`, w.Stack.Path().QueueURL, clusterTag, w.Stack.Kubeconfig(), Namespace, certificateFile, APIServer, group)
}

// AddKey makes a key, lets its holder into the tunnel and puts it into the pool.
func (w *World) AddKey(ctx context.Context) (keys.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, err := keys.NewFor(len(w.pool)+1, w.site.server)
	if err != nil {
		return k, err
	}
	if err := w.site.addPeer(ctx, k); err != nil {
		return k, err
	}
	_, err = w.Client.CoreV1().Secrets(Namespace).Create(ctx, k.Secret(Namespace), metav1.CreateOptions{})
	w.pool = append(w.pool, k)
	return k, err
}

// Launching changes what an instance is launched with.
type Launching struct {
	// Settings go over those of join.env.
	Settings map[string]string
	// CA is the PEM certificate that is pinned. Empty: the daemon's.
	CA []byte
	// Document is of what IMDS gives the identity document. Empty: the instance.
	Document instance.ID
}

// Launch launches an instance that the daemon will provision, and announces it.
// It is switched off.
func (w *World) Launch(ctx context.Context, l Launching) (*Instance, error) {
	id, err := w.EC2.Launch(ctx, map[string]string{clusterTag: "boot", "Name": "k8s-worker"})
	if err != nil {
		return nil, err
	}
	if len(l.CA) == 0 {
		if l.CA, err = os.ReadFile(w.Daemon.CAFile()); err != nil {
			return nil, err
		}
	}
	of := cmp.Or(l.Document, id)
	service := imds.New(id, func(ctx context.Context) (string, error) { return w.EC2.Document(ctx, of) })
	w.mu.Lock()
	defer w.mu.Unlock()
	i, err := w.site.newInstance(id, len(w.instances)+1, service, l)
	if err != nil {
		return nil, err
	}
	w.instances = append(w.instances, i)
	return i, w.announce(ctx, id, instance.Pending, instance.Running)
}

func (w *World) announce(ctx context.Context, id instance.ID, states ...instance.State) error {
	for _, state := range states {
		if err := w.EC2.Announce(ctx, w.Stack.Path(), id, state); err != nil {
			return err
		}
	}
	return nil
}

// Terminate ends an instance for good, and announces it.
func (w *World) Terminate(ctx context.Context, i *Instance) error {
	if err := w.announce(ctx, i.ID, instance.ShuttingDown); err != nil {
		return err
	}
	if err := i.PowerOff(); err != nil {
		return err
	}
	if err := w.EC2.Terminate(ctx, i.ID); err != nil {
		return err
	}
	return w.announce(ctx, i.ID, instance.Terminated)
}

// KeyOf returns the key that an instance holds.
func (w *World) KeyOf(ctx context.Context, id instance.ID) (keys.Key, error) {
	held, err := keys.ByHolder(ctx, w.Client, Namespace)
	if err != nil {
		return keys.Key{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.pool {
		if len(held[id]) == 1 && held[id][0].Name == k.Name {
			return k, nil
		}
	}
	return keys.Key{}, fmt.Errorf("%s holds %d keys", id, len(held[id]))
}

// ServerTunnel is what the VPN server says about the holder of a key.
func (w *World) ServerTunnel(ctx context.Context, k keys.Key) (Transfer, error) {
	return transfer(ctx, w.site.machine, serverInterface, k.PublicKey)
}

// Stop ends everything.
func (w *World) Stop() error {
	var errs []error
	for _, i := range w.instances {
		errs = append(errs, i.close())
	}
	if w.site != nil {
		errs = append(errs, w.site.stop())
	}
	if w.Daemon != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
		defer cancel()
		code, err := w.Daemon.Stop(ctx)
		if err == nil && code != 0 {
			err = fmt.Errorf("the provisioner ended with code %d; see %s", code, w.Daemon.LogFile())
		}
		errs = append(errs, err)
	}
	if w.Stack != nil {
		errs = append(errs, w.Stack.Stop())
	}
	return errors.Join(errs...)
}
