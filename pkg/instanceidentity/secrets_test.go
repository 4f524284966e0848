package instanceidentity

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// No error holds a part of the document, whatever way it is printed. The region
// is the exception, and no secret.
func TestErrorsKeepDocumentsSecret(t *testing.T) {
	t.Parallel()
	v := believing(t, strict)
	for _, tt := range refusals() {
		_, err := v.Verify(tt.encoded)
		checkKeepsSecret(t, tt.name, tt.encoded, err)
	}
	for _, tt := range badDocuments() {
		encoded := must(aws().Message([]byte(tt[1]))).BER()
		_, err := v.Verify(encoded)
		checkKeepsSecret(t, tt[0], encoded, err)
	}
}

func checkKeepsSecret(t *testing.T, name, encoded string, err error) {
	t.Helper()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Error("refused", "error", err)
	printed := fmt.Sprintf("%v %+v %#v %q %s", err, err, err, err, log.String())
	for _, secret := range []string{
		string(subject.InstanceID), subject.Account, subject.PrivateIP.String(), subject.Type, "us-east-2a",
		"2021-09-03", "ami-0fa9e1f64142cde17", "i-0123456789abcdef0", "123456789012", "000000000000",
	} {
		if strings.Contains(printed, secret) {
			t.Errorf("%s: the error holds %q: %s", name, secret, printed)
		}
	}
	const window = 12 // longer than any word that both have
	for i := range max(0, min(len(encoded), MaxEncoded)-window) {
		if strings.Contains(printed, encoded[i:i+window]) {
			t.Errorf("%s: the error holds %q of the encoded document: %s", name, encoded[i:i+window], printed)
		}
	}
	raw, _ := base64.StdEncoding.DecodeString(encoded[:min(len(encoded), MaxEncoded)])
	printed = strings.ToLower(printed)
	for i := range max(0, len(raw)-window) {
		if strings.Contains(printed, hex.EncodeToString(raw[i:i+window])) {
			t.Errorf("%s: the error holds bytes of the document: %s", name, printed)
		}
	}
	if errors.Unwrap(err) != nil || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 200 {
		t.Errorf("%s: the error wraps another, or is long: %q", name, err)
	}
}
