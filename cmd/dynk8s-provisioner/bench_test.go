package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/access"
	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity"
	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

const benchInstance instance.ID = "i-0123456789abcdef0"

// oneInstance is an EC2 with one running instance.
type oneInstance struct{ others }

type others = lifecycle.Instances

func (oneInstance) Instance(context.Context, instance.ID) (instance.Instance, error) {
	return instance.Instance{
		ID: benchInstance, State: instance.Running, Zone: "us-east-2a", Type: "t3.small", LaunchTime: time.Now(),
		Tags: map[string]string{"Name": "k8s-worker"},
	}, nil
}

// oneCluster is what cluster-info says.
type oneCluster struct{ caFile string }

func (c oneCluster) ClusterInfo(context.Context) (artifact.Cluster, error) {
	ca, err := os.ReadFile(c.caFile)
	return artifact.Cluster{Server: "https://10.99.0.1:6443", CAData: ca}, err
}

// newBenchRenderer is the renderer of an instance that was admitted, over an API
// server in memory, so that what is measured is ours.
func newBenchRenderer(b *testing.B, caFile string) (*lifecycle.Lifecycle, *artifact.Renderer) {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	server := apitest.NewServer()
	client := server.Client(nil)
	secrets := client.Secrets("dynk8s")
	_, err := secrets.Create(b.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key", Labels: map[string]string{wireguardkey.InstanceLabel: ""}},
		Type:       wireguardkey.SecretType,
		Data:       map[string][]byte{"wireguard-config": []byte("[Interface]\nAddress = 10.99.0.7/32\n")},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	keys := wireguardkey.NewPool(secrets, server.ViewSecrets("dynk8s", wireguardkey.SecretType, wireguardkey.Indexers()).Indexer(),
		wireguardkey.Config{Namespace: "dynk8s", Logger: quiet})
	nodes := node.New(client.Nodes(), server.ViewNodes(node.Indexers()).Indexer())
	l := lifecycle.New(oneInstance{}, bootstraptoken.NewIssuer(client.Secrets(metav1.NamespaceSystem)), keys, nodes, lifecycle.Config{Logger: quiet})
	l.SetProfiles([]lifecycle.Profile{{Name: "all", Selector: instance.MatchAll(), Token: bootstraptoken.Settings{TTL: time.Hour}}})
	if outcome, err := l.Handle(b.Context(), ec2event.Event{InstanceID: benchInstance, State: instance.Running, Time: time.Now()}); err != nil {
		b.Fatal(outcome, err)
	}
	renderer := artifact.New(l, oneCluster{caFile}, artifact.Config{Logger: quiet})
	renderer.SetNodeSettings(map[string]artifact.NodeSettings{"all": {}})
	return l, renderer
}

// benchCertificate writes a certificate for the loopback device.
func benchCertificate(b *testing.B) (certFile, keyFile string, pool *x509.CertPool) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	certFile, keyFile = filepath.Join(b.TempDir(), "tls.crt"), filepath.Join(b.TempDir(), "tls.key")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, content := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

// BenchmarkVerifiedRequests serves each of the three artifacts over TLS on
// loopback to clients that prove who they are. Clients and server share the
// machine; the API server is in memory, EC2 answers at once, limits are off.
func BenchmarkVerifiedRequests(b *testing.B) {
	authority, err := instanceidentitytest.New()
	if err != nil {
		b.Fatal(err)
	}
	verifier, err := instanceidentity.New(instanceidentity.Config{Extra: []instanceidentity.ExtraCertificates{{PEM: authority.CertificatePEM()}}})
	if err != nil {
		b.Fatal(err)
	}
	document, err := authority.Sign(instanceidentitytest.Fields{InstanceID: benchInstance})
	if err != nil {
		b.Fatal(err)
	}
	certFile, keyFile, pool := benchCertificate(b)
	gate, renderer := newBenchRenderer(b, certFile)
	var synced atomic.Bool
	synced.Store(true)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, path := range []string{"/wireguard/config/", "/kubeadm/kubeconfig/", "/kubeadm/join/"} {
			b.Run(protocol+path, func(b *testing.B) {
				s, err := httpserver.NewArtifactServer(serving{renderer, &synced}, access.New(verifier, oneInstance{}, gate, access.Config{}), httpserver.ArtifactConfig{
					Address: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile, Logger: slog.New(slog.DiscardHandler),
					Limits: httpserver.Limits{PerSource: -1, Total: -1},
				})
				if err != nil {
					b.Fatal(err)
				}
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				defer func() {
					stop()
					if err := <-ended; err != nil {
						b.Error(err)
					}
				}()
				client := &http.Client{Transport: &http.Transport{
					TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: protocol == "HTTP/2", MaxIdleConnsPerHost: 64,
				}}
				defer client.CloseIdleConnections()
				url := "https://" + s.Addr().String() + path + string(benchInstance)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := fetchVerified(client, url, document, protocol); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			})
		}
	}
}

func fetchVerified(client *http.Client, url, document, protocol string) error {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", access.Scheme+" "+document)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || answer.Proto != protocol+map[string]string{"HTTP/2": ".0"}[protocol]) {
		err = fmt.Errorf("%s %s", answer.Proto, answer.Status)
	}
	return err
}
