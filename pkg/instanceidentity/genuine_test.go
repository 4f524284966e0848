package instanceidentity

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// genuine are documents that AWS signed, as the metadata service gave them to
// people who published them in the tests of their programs:
//
//   - us-east-1: github.com/JackOfMostTrades/vssm, internal_service_test.go
//   - us-west-1, us-west-2: github.com/gravitational/teleport,
//     lib/auth/join_ec2_test.go, commit 0fe20f94e62f
//
// The signature of the first is named rsaEncryption, those of the others
// sha256WithRSAEncryption.
var genuine = []Document{
	{
		InstanceID:  "i-055950b9cfbce0ce3",
		Account:     "179727101194",
		Region:      "us-east-1",
		Zone:        "us-east-1e",
		Type:        "m4.large",
		PrivateIP:   netip.MustParseAddr("100.66.39.154"),
		PendingTime: time.Date(2017, 12, 29, 5, 34, 7, 0, time.UTC),
	},
	{
		InstanceID:  "i-01b940c45fd11fe74",
		Account:     "883474662888",
		Region:      "us-west-1",
		Zone:        "us-west-1c",
		Type:        "t2.micro",
		PrivateIP:   netip.MustParseAddr("172.31.12.251"),
		PendingTime: time.Date(2021, 9, 11, 0, 14, 18, 0, time.UTC),
	},
	{
		InstanceID:  "i-078517ca8a70a1dde",
		Account:     "278576220453",
		Region:      "us-west-2",
		Zone:        "us-west-2a",
		Type:        "t2.medium",
		PrivateIP:   netip.MustParseAddr("10.0.0.209"),
		PendingTime: time.Date(2021, 9, 3, 21, 25, 44, 0, time.UTC),
	},
}

// genuineEncoded returns the document that says d, on one line.
func genuineEncoded(t testing.TB, d Document) string {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join("testdata", d.Region+".rsa2048"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(lines), "\n", "")
}

func TestVerifyGenuine(t *testing.T) {
	t.Parallel()
	v, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range genuine {
		t.Run(want.Region, func(t *testing.T) {
			t.Parallel()
			encoded := genuineEncoded(t, want)
			if doc, err := v.Verify(encoded); err != nil || doc != want {
				t.Errorf("Verify() = %+v, %v; want %+v", doc, err, want)
			}
			tampered := tamper(encoded, func(raw []byte) []byte {
				return []byte(strings.Replace(string(raw), want.Account, "123456789012", 1))
			})
			checkRefused(t, v, tampered, ReasonSigner, "another digest")
		})
	}
}

// No byte of a genuine document can be changed so that it says something else.
// Where a changed one is believed, the byte was in an unsigned part, such as
// the list of digests in front.
func TestVerifyEveryFlippedByte(t *testing.T) {
	t.Parallel()
	v, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := genuine[2]
	encoded := genuineEncoded(t, want)
	for i := range len(encoded)/4*3 - 2 {
		changed := tamper(encoded, func(raw []byte) []byte {
			raw[i] ^= 1 << (i % 8)
			return raw
		})
		if doc, err := v.Verify(changed); err == nil && doc != want {
			t.Fatalf("bit %d of byte %d makes it say %+v", i%8, i, doc)
		}
	}
}
