package instanceidentity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/spire/pkg/server/plugin/nodeattestor/awsiid/awsrsa2048"
)

func TestBuiltInCertificates(t *testing.T) {
	t.Parallel()
	known, err := loadCertificates(nil) // parsed, RSA, large enough
	if err != nil {
		t.Fatal(err)
	}
	if len(awsrsa2048.CACerts) < 31 || len(known.byRegion) != len(awsrsa2048.CACerts) || len(known.all) != 0 {
		t.Errorf("%d regions, and %d certificates for all", len(known.byRegion), len(known.all))
	}
	long := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for region, certs := range known.byRegion {
		if len(certs) != 1 {
			t.Errorf("region %s has %d certificates", region, len(certs))
		}
		for _, cert := range certs {
			if cert.NotAfter.Before(long) || cert.NotBefore.After(time.Now()) {
				t.Errorf("region %s: valid from %s to %s", region, cert.NotBefore, cert.NotAfter)
			}
		}
	}
	if got := known.of("nowhere"); len(got) != 0 {
		t.Errorf("certificates of no region: %v", got)
	}
}

// Extra certificates of one region must not reach another through shared
// memory.
func TestCertificatesOfRegionsStayApart(t *testing.T) {
	t.Parallel()
	c := &certificates{}
	c.all = append(c.all, attacker().Certificate)
	c.byRegion = map[string][]*x509.Certificate{home: append(make([]*x509.Certificate, 0, 8), aws().Certificate)}
	first := c.of(home)
	c.byRegion[home] = append(c.byRegion[home], elsewhere().Certificate)
	if first[0] != aws().Certificate || first[1] != attacker().Certificate || len(c.of(home)) != 3 {
		t.Error("the lists share memory")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := aws().CertificatePEM()
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	damaged := bytes.Replace(good, []byte("MII"), []byte("M!I"), 1)
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: aws().Certificate.Raw})
	nonsense := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("nonsense")})
	extra := func(pem []byte) Config { return Config{Extra: []ExtraCertificates{{home, good}, {"", pem}}} }
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"empty PEM", extra(nil), []string{"[1]", "every region", "no PEM certificate"}},
		{"not a PEM", extra([]byte("certificate")), []string{"no PEM certificate"}},
		{"DER", extra(aws().Certificate.Raw), []string{"no PEM certificate"}},
		{"damaged", extra(damaged), []string{"no PEM certificate"}},
		{"damaged before a good one", extra(join(damaged, good)), []string{"before certificate 1 cannot be read"}},
		{"damaged after a good one", extra(join(good, damaged)), []string{"follows certificate 1"}},
		{"rest after the last one", extra(join(good, good, []byte("x"))), []string{"follows certificate 2"}},
		{"private key", extra(join(good, private)), []string{"certificate 2", "another type"}},
		{"nonsense in a block", extra(nonsense), []string{"certificate 1"}},
		{"ECDSA", extra(onCurve().CertificatePEM()), []string{"ECDSA, want RSA"}},
		{"RSA of 1024 bits", extra(join(good, weak().CertificatePEM())), []string{"certificate 2", "1024 bits"}},
		{"region that is no word", Config{Extra: []ExtraCertificates{{"US East", good}}}, []string{"[0]", `"US East"`, "no word"}},
		{"account", Config{Accounts: []string{"123456789012", "12345"}}, []string{"accounts[1]", `"12345"`, "12 digits"}},
		{"account that is empty", Config{Accounts: []string{""}}, []string{"accounts[0]"}},
		{"region without certificate", Config{Regions: []string{home, newborn}}, []string{"regions[1]", `"eu-moon-1"`}},
		{"region that is empty", Config{Regions: []string{""}, Extra: []ExtraCertificates{{"", good}}}, []string{"regions[0]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := New(tt.cfg)
			if err == nil || v != nil {
				t.Fatalf("New() = %v, %v; want an error", v, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestNewAccepts(t *testing.T) {
	t.Parallel()
	commented := append([]byte("# the new region\n"), aws().CertificatePEM()...)
	commented = append(commented, "\n# and its heir\n"...)
	commented = append(commented, attacker().CertificatePEM()...)
	commented = append(commented, " \r\n\n"...)
	for name, cfg := range map[string]Config{
		"nothing":            {},
		"text between":       {Extra: []ExtraCertificates{{newborn, commented}}, Regions: []string{newborn}},
		"region by all":      {Extra: []ExtraCertificates{{"", commented}}, Regions: []string{newborn}},
		"accounts and place": {Accounts: []string{"000000000000"}, Regions: []string{"us-gov-west-1", "cn-north-1"}},
	} {
		if _, err := New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
