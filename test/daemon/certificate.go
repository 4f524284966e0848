//go:build linux

package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// certificate is one that was made for a daemon on the loopback device.
type certificate struct {
	certFile, keyFile string
	pool              *x509.CertPool
}

// newCertificate writes base.crt and base.key, for the loopback address and
// further names.
func newCertificate(base string, names []string) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     names,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	c := certificate{certFile: base + ".crt", keyFile: base + ".key", pool: x509.NewCertPool()}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return certificate{}, err
	}
	c.pool.AddCert(parsed)
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.certFile, "CERTIFICATE", der},
		{c.keyFile, "PRIVATE KEY", keyDER},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return certificate{}, fmt.Errorf("the daemon's certificate: %w", err)
		}
	}
	return c, nil
}

func (c certificate) env() []string {
	return []string{"DYNK8S_ARTIFACTS_TLS_CERTFILE=" + c.certFile, "DYNK8S_ARTIFACTS_TLS_KEYFILE=" + c.keyFile}
}

// client trusts this certificate only.
func (c certificate) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}
}
