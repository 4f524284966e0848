//go:build linux

package stack

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// controllers are those that the join path, Nodes and namespaces need: they are
// up in a fifth of a second, all of them in five. The bootstrap signer and the
// token cleaner are off by default and would have to be named even beside "*".
var controllers = strings.Join([]string{
	"bootstrap-signer-controller", "token-cleaner-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"certificatesigningrequest-cleaner-controller",
	"serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"namespace-controller", "garbage-collector-controller",
	"pod-garbage-collector-controller", "node-lifecycle-controller",
}, ",")

// server is the URL of the API server.
func (s *Stack) server() string { return "https://" + loopback(s.state.Ports.APIServer) }

func (s *Stack) pki(name string) string { return filepath.Join(s.dir, "pki", name) }

func (s *Stack) wireControlPlane(detach bool) {
	program := func(name string, flags ...string) *service {
		return &service{
			name: name, dir: s.dir, detached: detach, timeout: 3 * time.Minute,
			args: append([]string{filepath.Join(s.state.Programs, name)}, flags...),
		}
	}
	p := s.state.Ports
	client, peer := "http://"+loopback(p.Etcd), "http://"+loopback(p.EtcdPeer)

	s.etcd = program("etcd", "--name=stack", "--data-dir="+filepath.Join(s.dir, "etcd"),
		"--unsafe-no-fsync", // the data need not outlive the machine
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=stack="+peer)
	s.etcd.ready = func(ctx context.Context) error { return httpOK(ctx, http.DefaultClient, client+"/readyz") }

	s.apiServer = program("kube-apiserver", "--etcd-servers="+client,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.APIServer),
		// The endpoints of the service "kubernetes" may not be loopback addresses.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file="+s.pki("apiserver.crt"), "--tls-private-key-file="+s.pki("apiserver.key"),
		"--client-ca-file="+s.pki("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.pki("sa.pub"), "--service-account-signing-key-file="+s.pki("sa.key"))
	s.apiServer.ready = s.apiServerReady

	s.controllerManager = program("kube-controller-manager",
		"--kubeconfig="+filepath.Join(s.dir, "controller-manager.conf"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.ControllerManager),
		"--leader-elect=false", "--use-service-account-credentials",
		"--root-ca-file="+s.pki("ca.crt"), "--service-account-private-key-file="+s.pki("sa.key"),
		"--cluster-signing-cert-file="+s.pki("ca.crt"), "--cluster-signing-key-file="+s.pki("ca.key"),
		"--controllers="+controllers)
	s.controllerManager.ready = s.controllersAtWork
}

func (s *Stack) startControlPlane(ctx context.Context) error {
	if err := s.makeCredentials(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.etcd.start, s.apiServer.start, s.bootstrapCluster, s.controllerManager.start,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) apiServerReady(ctx context.Context) error {
	c, err := restConfig(s.superAdmin())
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	return httpOK(ctx, client, s.server()+"/readyz")
}

// httpOK returns nil when a GET is answered with 200.
func httpOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
