package httpserver

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// certificate is a key pair in two files that may be replaced at any time, as
// cert-manager and the kubelet's Secret volumes do.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	loaded  fileStates  // of current
	failed  *fileStates // of the last pair that could not be used, to log it once
}

// newCertificate fails when the files hold no key pair now.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	states, err := c.stat()
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err := c.load(states); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return c, nil
}

// get is a tls.Config's GetCertificate. It looks at the files at each
// handshake, which costs two system calls, and keeps the certificate it has
// when the new files cannot be used: half of a rotation may be all there is.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	states, err := c.stat()
	if err == nil && !states.same(c.loaded) {
		err = c.load(states)
	}
	if err != nil && (c.failed == nil || !states.same(*c.failed)) {
		c.failed = &states
		c.log.Error("certificate cannot be read again, the old one is used", "err", err)
	}
	return c.current, nil
}

func (c *certificate) load(states fileStates) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	if c.current != nil {
		c.log.Info("certificate read again", "file", c.certFile)
	}
	c.current, c.loaded, c.failed = &pair, states, nil
	return nil
}

// fileStates are what the two files looked like; nil where a file is missing.
type fileStates [2]os.FileInfo

func (c *certificate) stat() (s fileStates, err error) {
	for i, name := range [2]string{c.certFile, c.keyFile} {
		if s[i], err = os.Stat(name); err != nil {
			return s, err
		}
		if !s[i].Mode().IsRegular() { // to read a pipe would wait for ever
			return s, fmt.Errorf("%s is no regular file", name)
		}
	}
	return s, nil
}

func (s fileStates) same(o fileStates) bool {
	for i := range s {
		if (s[i] == nil) != (o[i] == nil) {
			return false
		}
		if s[i] != nil && !sameFile(s[i], o[i]) {
			return false
		}
	}
	return true
}

// sameFile compares inodes as well: a file moved into place may be as old and
// as long as the one before.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
