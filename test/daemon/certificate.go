//go:build linux

package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// certificate is one that a CA of its own made for a daemon.
type certificate struct {
	caFile, certFile, keyFile string
	pool                      *x509.CertPool
}

// newCertificate writes base-ca.crt, base.crt and base.key, for the loopback
// address and further names.
func newCertificate(base string, names []string) (certificate, error) {
	c := certificate{caFile: base + "-ca.crt", certFile: base + ".crt", keyFile: base + ".key", pool: x509.NewCertPool()}
	ca, caKey, err := sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "CA of a daemon under test"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}, nil, nil)
	if err != nil {
		return certificate{}, err
	}
	c.pool.AddCert(ca)
	leaf, key, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "daemon under test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	if err != nil {
		return certificate{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, err
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.caFile, "CERTIFICATE", ca.Raw},
		{c.certFile, "CERTIFICATE", leaf.Raw},
		{c.keyFile, "PRIVATE KEY", keyDER},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return certificate{}, fmt.Errorf("the daemon's certificate: %w", err)
		}
	}
	return c, nil
}

// sign makes a key and a certificate for it, which signs itself without a CA.
func sign(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca, caKey = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func (c certificate) env() []string {
	return []string{"DYNK8S_ARTIFACTS_TLS_CERTFILE=" + c.certFile, "DYNK8S_ARTIFACTS_TLS_KEYFILE=" + c.keyFile}
}

// client trusts the daemon's CA only.
func (c certificate) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}
}
