//go:build linux

package userdata

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writeWorld fills the server's folder with new secrets, bodies that hold them,
// and two CAs; it returns the endpoint's certificate by the one and by the other.
func writeWorld(dir string) (good, bad *tls.Certificate, err error) {
	good, caPEM, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	bad, otherPEM, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	private, public := randomBase64(32), randomBase64(32)
	tokenID, tokenSecret := letters(6), letters(16)
	document := wrap(randomBase64(900), 76) // as IMDS has it, without a line break at its end
	token := randomBase64(40)
	files := map[string]string{
		"secrets/wireguard-key":  private,
		"secrets/token-secret":   tokenSecret,
		"secrets/token":          tokenID + "." + tokenSecret,
		"secrets/imds-token":     token,
		"secrets/document":       document,
		"secrets/document-start": document[:60],
		"body/token":             token,
		"body/instance-id":       instanceID,
		"body/document":          document,
		"body/wireguard": fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.99.0.7/32\n\n"+
			"[Peer]\nPublicKey = %s\nAllowedIPs = 10.99.0.0/24\nEndpoint = vpn.example.org:51820\n", private, public),
		"body/kubeconfig": "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(caPEM)) +
			"\n    server: https://10.99.0.1:6443\n  name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n",
		"body/join": "apiVersion: kubeadm.k8s.io/v1beta4\ndiscovery:\n  file:\n" +
			"    kubeConfigPath: /etc/kubernetes/dynk8s/discovery.conf\n  tlsBootstrapToken: " + tokenID + "." + tokenSecret +
			"\nkind: JoinConfiguration\nnodeRegistration:\n  name: " + instanceID + "\n  taints: []\n",
		"ca.pem":       caPEM,
		"other-ca.pem": otherPEM,
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			return nil, nil, err
		}
	}
	return good, bad, nil
}

func randomBase64(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// letters returns n lower-case letters: a bootstrap token's alphabet.
func letters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b)
}

func wrap(s string, width int) string {
	var lines []string
	for len(s) > width {
		lines, s = append(lines, s[:width]), s[width:]
	}
	return strings.Join(append(lines, s), "\n")
}

// certificate makes a CA, returned as PEM, and a certificate of it for loopback.
func certificate() (*tls.Certificate, string, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test " + letters(8)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "endpoint"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, "", err
	}
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(caPEM), nil
}
