//go:build linux

package boot

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"dynk8s.du5t1n.me/provisioner/test/imds"
)

// requestedFor reports whether a PEM certificate request is for a Node.
func requestedFor(request []byte, node string) bool {
	block, _ := pem.Decode(request)
	if block == nil {
		return false
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && r.Subject.CommonName == "system:node:"+node
}

const (
	wireguardFile = "/etc/wireguard/dynk8s.conf"
	kubeletFile   = "/etc/kubernetes/kubelet.conf"
)

// An endpoint that another CA vouches for gets no document and gives nothing.
func TestBootAnotherCA(t *testing.T) {
	t.Parallel()
	ca, err := os.ReadFile(filepath.Join(shared.Stack.Dir(), "pki", "ca.crt")) // a real one, of somebody else
	must(t, err)
	s := newScene(t, Launching{CA: ca, Settings: map[string]string{"DYNK8S_WAIT": "3"}})
	s.joins(1, "the endpoint's certificate is not trusted")
	s.absent(wireguardFile, kubeletFile)
	s.reaches(false, "without artifacts")
}

// A server that does not know the key: no handshake, no join, and the next run
// goes on once it does.
func TestBootNoHandshake(t *testing.T) {
	t.Parallel()
	s := newScene(t, Launching{Settings: map[string]string{"DYNK8S_HANDSHAKE_WAIT": "3"}})
	must(t, shared.site.removePeer(s.ctx, s.key))
	s.joins(1, "no handshake on dynk8s within 3s")
	s.absent(kubeletFile, "/etc/kubernetes/dynk8s/join.yaml", "/etc/kubernetes/dynk8s/discovery.conf")
	s.reaches(false, "without a handshake")
	must(t, shared.site.addPeer(s.ctx, s.key))
	s.joins(0, "joined")
	s.ready()
}

// Who shows another instance's document is refused for good.
func TestBootAnothersDocument(t *testing.T) {
	t.Parallel()
	other, err := shared.EC2.Launch(t.Context(), nil)
	must(t, err)
	s := newScene(t, Launching{Document: other})
	s.joins(3, "the endpoint refuses this instance for good (HTTP 403)")
	s.absent(wireguardFile, kubeletFile)
}

// Without IMDSv2 the script says so and fetches nothing; it never tries IMDSv1.
// Once there is IMDSv2 the next run joins.
func TestBootMetadata(t *testing.T) {
	t.Parallel()
	s := newScene(t, Launching{Settings: map[string]string{"DYNK8S_WAIT": "2"}})
	for _, c := range []struct {
		mode imds.Mode
		says string
	}{
		{imds.Down, "IMDS does not answer"},
		{imds.V1Only, "IMDSv2 gives no token (HTTP 404); IMDSv1 is not used"},
		{imds.Disabled, "IMDSv2 gives no token (HTTP 403)"},
	} {
		s.IMDS.Set(c.mode)
		s.joins(1, c.says)
		s.absent(wireguardFile, kubeletFile)
	}
	s.IMDS.Set(imds.V2)
	s.says("sed -i s/^DYNK8S_WAIT=2/DYNK8S_WAIT=60/ /etc/dynk8s/join.env")
	s.joins(0, "joined")
	s.ready()
}
