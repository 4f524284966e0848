//go:build linux

package system

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
)

// Only the instance itself, with its own genuine document and while it is
// joining, is served; every refusal looks the same.
func TestOnlyTheInstanceItselfIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(4)
	d := w.start(slowReconcile)
	ids := w.launch(4)
	victim, other, stopped, gone := ids[0], ids[1], ids[2], ids[3]
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	must(t, w.ec2.Stop(w.ctx, stopped))
	must(t, w.ec2.Terminate(w.ctx, gone)) // and nobody says so
	impostor := ec2world.New(w.stack)     // signs with another key

	var refusal []byte
	for _, tt := range []struct {
		name     string
		id       instance.ID
		signer   *ec2world.World
		document func(*ec2world.DocumentFields)
	}{
		{"another instance's document", victim, w.ec2, func(f *ec2world.DocumentFields) { f.InstanceID = other }},
		{"another signer", victim, impostor, nil},
		{"another account", victim, w.ec2, func(f *ec2world.DocumentFields) { f.Account = "210987654321" }},
		{"another region", victim, w.ec2, func(f *ec2world.DocumentFields) { f.Region = "us-west-1" }},
		{"too old", victim, w.ec2, func(f *ec2world.DocumentFields) { f.PendingTime = time.Now().Add(-2 * time.Hour) }},
		{"of the future", victim, w.ec2, func(f *ec2world.DocumentFields) { f.PendingTime = time.Now().Add(2 * time.Hour) }},
		{"stopped", stopped, w.ec2, func(f *ec2world.DocumentFields) { f.PendingTime = time.Now().Add(-10 * time.Minute) }},
		{"terminated", gone, w.ec2, nil},
	} {
		if tt.document == nil {
			tt.document = func(*ec2world.DocumentFields) {}
		}
		document, err := tt.signer.Document(w.ctx, tt.id, tt.document)
		must(t, err)
		for _, artifact := range artifacts {
			body, err := w.fetchWith(d, artifact, tt.id, document, http.StatusForbidden)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			if refusal == nil {
				refusal = body
			}
			if !bytes.Equal(body, refusal) {
				t.Errorf("%s: the refusal differs: %q", tt.name, body)
			}
		}
	}
	for _, artifact := range artifacts {
		_, err := w.fetchWith(d, artifact, victim, "", http.StatusUnauthorized)
		must(t, err)
	}
	held, err := w.keysOf()
	must(t, err)
	for _, id := range ids {
		if held[id][0].Annotations["dynk8s.du5t1n.me/handed-out-to"] != "" {
			t.Errorf("the key of %s was handed out", id)
		}
	}
	_, err = w.fetch(d, "wireguard/config", victim, http.StatusOK)
	must(t, err)
	for reason, least := range map[string]float64{"instance": 3, "signer": 3, "account": 3, "region": 3, "age": 6, "state": 6, "no_credentials": 3} {
		must(t, w.metricAtLeast(d, fmt.Sprintf("dynk8s_artifact_refusals_total{reason=%q}", reason), least))
	}
}

// A token that was taken from an instance can become the instance's own Node and
// no other, on the real API server.
func TestStolenTokenBecomesNoOtherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	d := w.start(slowReconcile)
	ids := w.launch(2)
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	join, err := w.fetch(d, "kubeadm/join", ids[0], http.StatusOK)
	must(t, err)
	thief := w.bearer(tokenIn(t, join))

	nodes := pkix.Name{Organization: []string{"system:nodes"}}
	for name, subject := range map[string]pkix.Name{
		"another instance":   {CommonName: "system:node:" + string(ids[1]), Organization: nodes.Organization},
		"the control plane":  {CommonName: "system:node:control-plane", Organization: nodes.Organization},
		"an administrator":   {CommonName: "system:node:" + string(ids[0]), Organization: []string{"system:nodes", "system:masters"}},
		"no node":            {CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		"the node in a case": {CommonName: "system:node:" + strings.ToUpper(string(ids[0])), Organization: nodes.Organization},
	} {
		request := w.request(thief, subject)
		if request == nil {
			continue // refused at the door
		}
		w.eventually(name+" is denied", func() error {
			return decided(w.ctx, thief, request.Name, certificatesv1.CertificateDenied, false)
		})
	}
	nodes.CommonName = "system:node:" + string(ids[0])
	request := w.request(thief, nodes)
	w.eventually("its own is approved and signed", func() error {
		return decided(w.ctx, thief, request.Name, certificatesv1.CertificateApproved, true)
	})
	// What else the token might be good for.
	_, err = thief.CoreV1().Secrets("kube-system").List(w.ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets with the token: %v", err)
	}
	_, err = thief.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "intruder"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("creating a Node with the token: %v", err)
	}
	must(t, w.metricAtLeast(d, `dynk8s_certificate_requests_total{result="denied",signer="client"}`, 4))
}

// bearer is a client that has nothing but a bootstrap token.
func (w *world) bearer(token string) kubernetes.Interface {
	w.t.Helper()
	admin, err := w.stack.RESTConfig()
	must(w.t, err)
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	must(w.t, err)
	w.eventually("the API server knows the token", func() error {
		_, err := client.CertificatesV1().CertificateSigningRequests().List(w.ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	return client
}

// request asks for a kubelet's client certificate. It is nil when the API server
// does not even take the request.
func (w *world) request(client kubernetes.Interface, subject pkix.Name) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(w.t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	must(w.t, err)
	created, err := client.CertificatesV1().CertificateSigningRequests().Create(w.ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	must(w.t, err)
	return created
}

// decided returns nil when a request was decided so, and has a certificate or
// none.
func decided(ctx context.Context, client kubernetes.Interface, name string, want certificatesv1.RequestConditionType, certificate bool) error {
	request, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range request.Status.Conditions {
		if c.Type == want && (len(request.Status.Certificate) > 0) == certificate {
			return nil
		}
	}
	return fmt.Errorf("conditions are %v, the certificate has %d bytes", request.Status.Conditions, len(request.Status.Certificate))
}

// The kubelet of an instance gets the serving certificate that it asks for,
// which names the VPN's address.
func TestKubeletGetsItsServingCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	d := w.start(slowReconcile)
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	w.join(d, id)
	w.eventually("serving certificate", func() error {
		list, err := w.client.CertificatesV1().CertificateSigningRequests().List(w.ctx, metav1.ListOptions{
			FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName,
		})
		if err != nil {
			return err
		}
		for _, request := range list.Items {
			if request.Spec.Username != "system:node:"+string(id) || len(request.Status.Certificate) == 0 {
				continue
			}
			block, _ := pem.Decode(request.Status.Certificate)
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return err
			}
			if len(certificate.IPAddresses) != 1 || certificate.IPAddresses[0].String() != w.pool[0].Address {
				t.Errorf("it names %v, want the VPN's %s", certificate.IPAddresses, w.pool[0].Address)
			}
			return nil
		}
		return errors.New("there is none")
	})
}

// An operator's reissue opens the endpoint to a joined instance, and to one that
// is too old; its next join closes it.
func TestReissue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	must(t, w.stack.BindBootstrappers(w.ctx, w.group(), w.name))
	d := w.start("reconcile: {interval: 1s}\n")
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	before, err := w.tokensOf(id)
	must(t, err)
	node := w.join(d, id)
	w.eventually("token revoked", func() error { return w.tokenRevoked(id) })
	w.closedTo(d, id)

	out, err := w.reissue(d, string(id))
	must(t, err)
	if !strings.Contains(out, "may fetch its artifacts until ") {
		t.Errorf("it says %q", out)
	}
	must(t, w.provisioned(id))
	after, err := w.tokensOf(id)
	must(t, err)
	if bytes.Equal(after[0].Data["token-secret"], before[0].Data["token-secret"]) {
		t.Error("the token is the old one")
	}
	// Passes of the daemon, one a second, leave it open while the Node is Ready.
	old, err := w.ec2.Document(w.ctx, id, func(f *ec2world.DocumentFields) { f.PendingTime = time.Now().Add(-100 * time.Hour) })
	must(t, err)
	for _, artifact := range artifacts {
		w.eventually("open again: "+artifact, func() error {
			_, err := w.fetchWith(d, artifact, id, old, http.StatusOK)
			return err
		})
	}
	must(t, w.metricAtLeast(d, "dynk8s_last_receive_timestamp_seconds", 1))

	must(t, node.Stop())
	must(t, w.client.CoreV1().Nodes().Delete(w.ctx, string(id), metav1.DeleteOptions{}))
	w.join(d, id)
	w.eventually("token revoked after the new join", func() error { return w.tokenRevoked(id) })
	w.closedTo(d, id)
}

// Reissue says why it does nothing.
func TestReissueRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	d := w.start(slowReconcile)
	stranger, err := w.ec2.Launch(w.ctx, map[string]string{"Name": "database"})
	must(t, err)
	ended := w.launch(1)[0]
	must(t, w.ec2.Terminate(w.ctx, ended))
	for id, want := range map[string]string{
		string(stranger):      "match no profile",
		string(ended):         "is terminated",
		"i-0123456789abcdef0": "not found",
		"i-1":                 "no EC2 instance id",
		"":                    "no EC2 instance id",
	} {
		out, err := w.reissue(d, id)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("reissue %q: %v, %q, want %q", id, err, out, want)
		}
	}
	must(t, w.takenBack(stranger, ended))
}

// reissue runs the command as an operator would in the daemon's pod.
func (w *world) reissue(d *daemon.Daemon, id string) (string, error) {
	cmd := exec.CommandContext(w.ctx, shared.program, "reissue", "--config", d.ConfigFile(), id)
	cmd.Env = d.Options().Env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
