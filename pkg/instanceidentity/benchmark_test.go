package instanceidentity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instanceidentity/instanceidentitytest"
)

func BenchmarkVerify(b *testing.B) {
	wrong := forged(func(s *signerInfo) { s.Signature[100] ^= 1 })
	b.Run("BER", func(b *testing.B) { benchmark(b, must(aws().Sign(subject)), "") })
	b.Run("DER", func(b *testing.B) { benchmark(b, must(aws().SignDER(subject)), "") })
	b.Run("wrong signature", func(b *testing.B) { benchmark(b, wrong.BER(), ReasonSigner) })
	for _, h := range hostile() {
		b.Run("hostile/"+h.name, func(b *testing.B) { benchmark(b, h.encoded, h.reason) })
	}
}

func benchmark(b *testing.B, encoded, reason string) {
	v := believing(b, Config{})
	_, err := v.Verify(encoded)
	var refused *Refusal
	if errors.As(err, &refused) != (reason != "") || refused != nil && refused.Reason() != reason {
		b.Fatalf("Verify: %v", err)
	}
	b.SetBytes(int64(len(encoded)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = v.Verify(encoded)
	}
}

// hostile are documents of nearly MaxEncoded that are made to take long.
func hostile() []refusal {
	const room = MaxEncoded / 4 * 3
	encode := base64.StdEncoding.EncodeToString
	null := []byte{5, 0}
	deep := bytes.Repeat([]byte{tagSequence, indefinite}, room/2)
	wide := slices.Concat([]byte{tagSequence, indefinite}, bytes.Repeat(null, room/2-2), endMark)
	filled := func(content string) string { return must(attacker().Message([]byte(content))).BER() }
	stuffed := signed(aws())
	curve := must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	heavy := must(instanceidentitytest.NewWith(curve, time.Unix(0, 0), time.Now())).Certificate.Raw
	for range 3 { // more would be too many elements
		stuffed.Certificates = append(stuffed.Certificates, heavy)
	}
	stuffed.SignerInfos = signed(attacker()).SignerInfos
	chunks := must(attacker().Message(subject.JSON()))
	chunks.Chunk = 3
	attributes := forged(func(s *signerInfo) {
		for range 25 {
			s.Signed = append(s.Signed, newAttribute([]int{1, 2, 3}, strings.Repeat("a", 120)))
		}
	})
	return []refusal{
		{"no base64 at the end", strings.Repeat("A", MaxEncoded-1) + "!", ReasonMalformed, ""},
		{"deep BER", encode(deep), ReasonMalformed, ""},
		{"wide BER", encode(wide), ReasonMalformed, ""},
		{"small chunks", chunks.BER(), ReasonSigner, ""},
		{"nested JSON", filled("{" + rest + `,"x":` + strings.Repeat("[", 2200) + strings.Repeat("]", 2200) + "}"), ReasonSigner, ""},
		{"many JSON keys", filled("{" + rest + manyKeys(500) + "}"), ReasonMalformed, ""},
		{"certificates inside", stuffed.BER(), ReasonSigner, ""},
		{"attributes", attributes.BER(), ReasonSigner, ""},
	}
}

// manyKeys returns members of a JSON object with different keys.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":1`)
	}
	return b.String()
}
