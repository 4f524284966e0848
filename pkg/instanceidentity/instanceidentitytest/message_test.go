package instanceidentitytest

import (
	"bytes"
	"encoding/asn1"
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

// The real form is what AWS sends: content and signature of a genuine document
// make the same bytes again.
func TestBERIsTheRealForm(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"us-east-1", "us-west-1", "us-west-2"} {
		lines, err := os.ReadFile("../testdata/" + region + ".rsa2048")
		if err != nil {
			t.Fatal(err)
		}
		genuine := strings.ReplaceAll(string(lines), "\n", "")
		raw, err := base64.StdEncoding.DecodeString(genuine)
		if err != nil {
			t.Fatal(err)
		}
		from, to := bytes.IndexByte(raw, '{'), bytes.IndexByte(raw, '}')+1
		var set asn1.RawValue
		if _, err := asn1.Unmarshal(raw[to+6:], &set); err != nil { // behind three end marks
			t.Fatal(err)
		}
		m := Message{Content: raw[from:to], SignerInfos: [][]byte{set.Bytes}}
		if m.BER() != genuine {
			t.Errorf("%s: BER() = %s, want %s", region, m.BER(), genuine)
		}
		if got := Wrap(m.BER()); got != string(lines) {
			t.Errorf("%s: Wrap() = %q, want %q", region, got, lines)
		}
	}
}

func TestFieldsAreWrittenAsAWSWrites(t *testing.T) {
	t.Parallel()
	f := Fields{
		InstanceID: "i-078517ca8a70a1dde", Account: "278576220453", Region: "us-west-2", Type: "t2.medium",
	}
	lines, err := os.ReadFile("../testdata/us-west-2.rsa2048")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(string(lines))
	if err != nil {
		t.Fatal(err)
	}
	pending := []byte(`"pendingTime" : "`)
	got := f.JSON()
	copy(got[bytes.Index(got, pending)+len(pending):], "2021-09-03T21:25:44Z")
	if !bytes.Contains(raw, got) {
		t.Errorf("JSON() = %s, want as in %s", got, raw)
	}
}

func TestAuthoritiesDifferByKeyOnly(t *testing.T) {
	t.Parallel()
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewSize(2048)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Certificate.RawIssuer, b.Certificate.RawIssuer) || a.Certificate.SerialNumber.Cmp(b.Certificate.SerialNumber) != 0 {
		t.Error("the certificates have different names")
	}
	if bytes.Equal(a.CertificatePEM(), b.CertificatePEM()) {
		t.Error("the authorities have one key")
	}
}
