package httpserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// keyPair is a certificate with the given serial number and its key, PEM.
type keyPair struct{ cert, key []byte }

func newKeyPair(t testing.TB, serial int64) keyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"test"}, NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// replace moves a new file into place, as those who rotate certificates do.
func replace(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// certificateFiles hold a certificate of serial number 1.
func certificateFiles(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pair := newKeyPair(t, 1)
	replace(t, certFile, pair.cert)
	replace(t, keyFile, pair.key)
	return certFile, keyFile
}

// tlsServer serves artifacts with a certificate of serial number 1.
func tlsServer(t *testing.T, logged *logBuffer) (s *Server, certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = certificateFiles(t)
	s = newTestServer(t, fixedArtifacts{}, AnyCaller(),
		ArtifactConfig{CertFile: certFile, KeyFile: keyFile, Logger: logged.logger()})
	run(t, s)
	return s, certFile, keyFile
}

// fetchTLS fetches an artifact and returns the serial number of the server's
// certificate.
func fetchTLS(t *testing.T, s *Server) int64 {
	t.Helper()
	conn := tls.Client(dial(t, s), trusting("http/1.1"))
	if _, err := conn.Write([]byte("GET " + joinPath + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")); err != nil {
		t.Errorf("TLS: %v", err)
		return 0
	}
	if got := receive(t, conn, "GET "+joinPath); got.code != 200 || !strings.Contains(got.body, secret) {
		t.Errorf("got %d %q", got.code, got.body)
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// fetchHTTP2 is fetchTLS over HTTP/2.
func fetchHTTP2(t *testing.T, s *Server) (serial int64) {
	t.Helper()
	config := trusting()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		serial = state.PeerCertificates[0].SerialNumber.Int64()
		return nil
	}
	client := http2Client(t, s, config)
	defer client.CloseIdleConnections()
	if got := get(t, client, joinPath); got.code != 200 || !strings.Contains(got.body, secret) {
		t.Errorf("HTTP/2: got %d %q", got.code, got.body)
	}
	return serial
}

// trusting is for certificates that the test made itself.
func trusting(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}

func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	s, certFile, keyFile := tlsServer(t, &logged)
	want := func(serial int64, when string) {
		t.Helper()
		if got := fetchTLS(t, s); got != serial {
			t.Errorf("%s: certificate %d is served, want %d", when, got, serial)
		}
		if got := fetchHTTP2(t, s); got != serial {
			t.Errorf("%s: certificate %d is served over HTTP/2, want %d", when, got, serial)
		}
	}
	want(1, "at start")
	second := newKeyPair(t, 2)
	replace(t, certFile, second.cert)
	want(1, "half rotated")
	want(1, "still half rotated")
	if n := strings.Count(logged.String(), "cannot be read again"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
	replace(t, keyFile, second.key)
	want(2, "rotated")
	replace(t, keyFile, []byte("junk"))
	want(2, "key is junk")
	replace(t, keyFile, second.key)
	want(2, "key is back")
	for _, file := range []string{certFile, keyFile} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	want(2, "files are gone")
	if n := strings.Count(logged.String(), "cannot be read again"); n != 3 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
	third := newKeyPair(t, 3)
	replace(t, keyFile, third.key)
	replace(t, certFile, third.cert)
	want(3, "new files")
	if strings.Contains(logged.String(), "PRIVATE") {
		t.Errorf("logged a key:\n%s", &logged)
	}
}

// The kubelet swaps a link, so both files change at once.
func TestCertificateRotationByLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(serial int64) {
		t.Helper()
		pair, version := newKeyPair(t, serial), filepath.Join(dir, string(rune('a'+serial)))
		if err := os.Mkdir(version, 0o700); err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(version, "tls.crt"), pair.cert)
		replace(t, filepath.Join(version, "tls.key"), pair.key)
		if err := os.Symlink(version, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	swap(1)
	s := newTestServer(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{
		CertFile: filepath.Join(dir, "data", "tls.crt"), KeyFile: filepath.Join(dir, "data", "tls.key"),
	})
	run(t, s)
	for serial := int64(1); serial <= 3; serial++ {
		if got := fetchTLS(t, s); got != serial {
			t.Errorf("certificate %d is served, want %d", got, serial)
		}
		swap(serial + 1)
	}
}

func TestRotationWhileServing(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	s, certFile, keyFile := tlsServer(t, &logged)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				fetchTLS(t, s)
				fetchHTTP2(t, s)
			}
		})
	}
	for serial := range int64(10) {
		pair := newKeyPair(t, serial+2)
		replace(t, certFile, pair.cert)
		replace(t, keyFile, pair.key)
	}
	wg.Wait()
	if got := fetchTLS(t, s); got != 11 {
		t.Errorf("certificate %d is served in the end", got)
	}
}

func TestTLSRefusesWhatIsOld(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	s, _, _ := tlsServer(t, &logged)
	old := trusting("h2", "http/1.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if err := tls.Client(dial(t, s), old).Handshake(); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	for want, offered := range map[string][]string{"h2": {"http/1.1", "h2"}, "http/1.1": {"http/1.1"}, "": nil} {
		conn := tls.Client(dial(t, s), trusting(offered...))
		if err := conn.Handshake(); err != nil || conn.ConnectionState().NegotiatedProtocol != want {
			t.Errorf("protocol %q of %q, %v", conn.ConnectionState().NegotiatedProtocol, offered, err)
		}
	}
	if got := send(t, s, "GET "+joinPath); got.code != 400 || strings.Contains(got.body, secret) {
		t.Errorf("plain HTTP: %d %q", got.code, got.body)
	}
}

// A new file may be as long and as old as the one before.
func TestSameFile(t *testing.T) {
	t.Parallel()
	file, written := filepath.Join(t.TempDir(), "tls.crt"), time.Unix(1e9, 0)
	stat := func(content string, modified time.Time) os.FileInfo {
		t.Helper()
		replace(t, file, []byte(content))
		if err := os.Chtimes(file, modified, modified); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := stat("first", written)
	kept := file + ".kept" // so that no new file gets its inode
	if err := os.Link(file, kept); err != nil {
		t.Fatal(err)
	}
	again, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	if !sameFile(first, again) {
		t.Error("a file is not the same as itself")
	}
	if sameFile(first, stat("other", written)) {
		t.Error("another file of the same length and time is taken for the first")
	}
}
