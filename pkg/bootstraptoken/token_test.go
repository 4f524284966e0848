package bootstraptoken

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const (
	testID     = "5emitj"
	testSecret = "kq4gihvszzgn1p0r"
)

// verbs are all that package fmt knows, and one that it does not.
const verbs = "vTtbcdoOqxXUeEfFgGspw!"

func TestTokenNeverPrintsItsSecret(t *testing.T) {
	t.Parallel()
	token := NewToken(testID, testSecret)
	type hidden struct{ token Token } // fmt calls no methods of unexported fields
	values := map[string]any{
		"value": token, "pointer": &token, "slice": []Token{token}, "map": map[string]Token{"a": token},
		"exported field": struct{ Token Token }{token}, "unexported field": hidden{token}, "pointer to unexported": &hidden{token},
		"claim": Claim{Token: token}, "hidden claim": struct{ c Claim }{Claim{Token: token}}, "map key": map[Token]int{token: 1},
		"in an error": fmt.Errorf("with %v", token),
	}
	for name, value := range values {
		for printer, text := range printed(t, value) {
			for _, secret := range []string{testSecret, fmt.Sprintf("%x", testSecret), fmt.Sprintf("%X", testSecret), fmt.Sprint([]byte(testSecret))} {
				if strings.Contains(text, secret) {
					t.Errorf("%s by %s: %s", name, printer, text)
				}
			}
		}
	}
}

// printed is what a value looks like in everything that prints.
func printed(t *testing.T, value any) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, verb := range verbs {
		for _, flags := range []string{"", "+", "#", " ", "-20", "020", ".3"} {
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, value)
		}
	}
	out["Sprintln"] = fmt.Sprintln(value)
	if text, err := json.Marshal(value); err == nil {
		out["json"] = string(text)
	}
	if text, err := yaml.Marshal(value); err == nil {
		out["yaml"] = string(text)
	}
	var text, lines bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("m", "value", value)
	slog.New(slog.NewJSONHandler(&lines, nil)).Info("m", "value", value)
	out["slog text"], out["slog json"] = text.String(), lines.String()
	return out
}

func TestTokenPrintsItsID(t *testing.T) {
	t.Parallel()
	token := NewToken(testID, testSecret)
	const want = "5emitj.REDACTED"
	if got := token.String(); got != want {
		t.Errorf("String: %q", got)
	}
	for format := range strings.FieldsSeq("%v %s %q %d %x") {
		if got := fmt.Sprintf(format, token); got != want {
			t.Errorf("%s: %q", format, got)
		}
	}
	if got, err := json.Marshal(map[string]any{"t": token}); err != nil || string(got) != `{"t":"5emitj.REDACTED"}` {
		t.Errorf("json: %s %v", got, err)
	}
	if got, err := yaml.Marshal(map[string]any{"t": token}); err != nil || string(got) != "t: 5emitj.REDACTED\n" {
		t.Errorf("yaml: %s %v", got, err)
	}
}

func TestTokenReveals(t *testing.T) {
	t.Parallel()
	token := NewToken(testID, testSecret)
	if got := token.Reveal(); got != testID+"."+testSecret {
		t.Errorf("Reveal: %q", got)
	}
	if token.ID() != testID {
		t.Errorf("ID: %q", token.ID())
	}
	if got := (Token{}).Reveal(); got != "." {
		t.Errorf("zero Token: %q", got)
	}
}

func TestNewSecretsAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 200 {
		secret, err := newSecret()
		if err != nil {
			t.Fatal(err)
		}
		if !bootstraputil.IsValidBootstrapToken("abcdef." + secret) {
			t.Fatalf("not a token secret: %q", secret)
		}
		if seen[secret] {
			t.Fatal("drawn twice")
		}
		seen[secret] = true
	}
}

func TestDeriveID(t *testing.T) {
	t.Parallel()
	// Every release must derive the same, since two may run side by side. The
	// wanted ids were computed by another program.
	for _, tc := range []struct {
		id   instance.ID
		n    int
		want string
	}{
		{"i-0123456789abcdef0", 0, "hz1s21"},
		{"i-0123456789abcdef0", 1, "xowu4o"},
		{"i-0123456789abcdef0", 7, "rzsrjz"},
		{"i-abcd1111", 0, "ys8gfj"},
	} {
		got := deriveID(tc.id, tc.n)
		if got != tc.want {
			t.Errorf("deriveID(%s, %d) = %q, want %q", tc.id, tc.n, got, tc.want)
		}
		if again := deriveID(tc.id, tc.n); again != got {
			t.Errorf("not the same again: %q", again)
		}
	}
}

func TestDerivedIDsAreValidAndSpread(t *testing.T) {
	t.Parallel()
	seen := map[string]instance.ID{}
	collisions := 0
	for i := range 3000 {
		id := instance.ID(fmt.Sprintf("i-%017x", i))
		for n := range 2 {
			tokenID := deriveID(id, n)
			if !bootstraputil.IsValidBootstrapTokenID(tokenID) {
				t.Fatalf("%s: not a token id: %q", id, tokenID)
			}
			if _, taken := seen[tokenID]; taken {
				collisions++
			}
			seen[tokenID] = id
		}
	}
	if collisions > 2 { // 6000 of two billion
		t.Errorf("%d collisions", collisions)
	}
}
