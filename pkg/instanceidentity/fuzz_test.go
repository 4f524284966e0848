package instanceidentity

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzVerify gives any bytes to a Verifier, encoded and as they are. What it
// believes must be one of the documents that were signed: those of AWS, which
// stay the same in all of the fuzzer's processes, and subject.
func FuzzVerify(f *testing.F) {
	v := believing(f, Config{})
	for _, d := range genuine {
		f.Add(must(base64.StdEncoding.DecodeString(genuineEncoded(f, d))))
	}
	f.Add(must(base64.StdEncoding.DecodeString(must(aws().SignDER(subject)))))
	for _, tt := range refusals() {
		if tt.reason == ReasonRegion || tt.reason == ReasonAccount {
			continue // this Verifier allows all
		}
		if raw, err := base64.StdEncoding.DecodeString(tt.encoded); err == nil && len(raw) < 1<<13 {
			f.Add(raw)
		}
		if len(tt.encoded) < 1<<12 {
			f.Add([]byte(tt.encoded))
		}
	}
	signed := append(slices.Clone(genuine), subjectDocument)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, encoded := range []string{base64.StdEncoding.EncodeToString(raw), string(raw)} {
			doc, err := v.Verify(encoded)
			if err != nil {
				checkRefusal(t, doc, err)
			} else if !slices.Contains(signed, doc) {
				t.Errorf("believed %+v", doc)
			}
		}
	})
}

// checkRefusal checks what is true of every error.
func checkRefusal(t *testing.T, doc Document, err error) {
	t.Helper()
	var refused *Refusal
	if !errors.As(err, &refused) || doc != (Document{}) {
		t.Fatalf("Verify() = %+v, %v", doc, err)
	}
	if strings.Contains(err.Error(), "in two ways") {
		t.Error("our reader and the library's differ")
	}
	known := []string{ReasonSize, ReasonMalformed, ReasonSigner, ReasonRegion, ReasonAccount}
	if !slices.Contains(known, refused.Reason()) || len(err.Error()) > 200 {
		t.Errorf("refused for %q: %v", refused.Reason(), err)
	}
}
