package instanceidentity

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spiffe/spire/pkg/server/plugin/nodeattestor/awsiid/awsrsa2048"
)

// minKeyBits is the least size of an RSA key that is believed.
const minKeyBits = 2048

// ExtraCertificates are PEM certificates that an operator adds. They add to the
// built-in ones and never replace them.
type ExtraCertificates struct {
	// Region is the region they sign for. Empty: every region.
	Region string
	// PEM holds one certificate or more. Text before a certificate is allowed,
	// text after the last one is not.
	PEM []byte
}

// certificates are those that may sign, by region. all sign for every region.
type certificates struct {
	byRegion map[string][]*x509.Certificate
	all      []*x509.Certificate
}

// of returns the certificates that may sign for a region; none: it is unknown.
func (c *certificates) of(region string) []*x509.Certificate {
	own := c.byRegion[region]
	return append(own[:len(own):len(own)], c.all...)
}

func loadCertificates(extra []ExtraCertificates) (*certificates, error) {
	c := &certificates{byRegion: map[string][]*x509.Certificate{}}
	for region, text := range awsrsa2048.CACerts {
		if err := c.add(ExtraCertificates{Region: region, PEM: []byte(text)}); err != nil {
			return nil, fmt.Errorf("built-in certificate of region %q: %w", region, err)
		}
	}
	for i, e := range extra {
		if err := c.add(e); err != nil {
			return nil, fmt.Errorf("extra certificates [%d], %s: %w", i, e.scope(), err)
		}
	}
	return c, nil
}

func (e ExtraCertificates) scope() string {
	if e.Region == "" {
		return "for every region"
	}
	return fmt.Sprintf("for region %q", e.Region)
}

var regionPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

func (c *certificates) add(e ExtraCertificates) error {
	certs, err := parsePEM(e.PEM)
	switch {
	case err != nil:
		return err
	case e.Region == "":
		c.all = append(c.all, certs...)
		return nil
	case !regionPattern.MatchString(e.Region):
		return errors.New("the region is no word such as us-east-2")
	}
	c.byRegion[e.Region] = append(c.byRegion[e.Region], certs...)
	return nil
}

// parsePEM reads certificates that can verify documents today or later.
func parsePEM(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		n := len(certs) + 1
		// The decoder skips a block that it cannot read.
		if bytes.Count(text[:len(text)-len(rest)], []byte("-----BEGIN ")) != 1 {
			return nil, fmt.Errorf("a PEM block before certificate %d cannot be read", n)
		}
		cert, err := parseBlock(block)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n, err)
		}
		certs, text = append(certs, cert), rest
	}
	switch {
	case len(certs) == 0:
		return nil, errors.New("no PEM certificate")
	case len(bytes.TrimSpace(text)) > 0:
		return nil, fmt.Errorf("something that is no PEM block follows certificate %d", len(certs))
	}
	return certs, nil
}

func parseBlock(block *pem.Block) (*x509.Certificate, error) {
	if block.Type != "CERTIFICATE" {
		return nil, errors.New("a PEM block of another type than CERTIFICATE")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	switch {
	case !ok:
		return nil, fmt.Errorf("the key is %v, want RSA", cert.PublicKeyAlgorithm)
	case key.N.BitLen() < minKeyBits:
		return nil, fmt.Errorf("the RSA key has %d bits, want at least %d", key.N.BitLen(), minKeyBits)
	case time.Now().After(cert.NotAfter):
		return nil, fmt.Errorf("expired on %s", cert.NotAfter.UTC().Format(time.DateOnly))
	}
	return cert, nil
}
