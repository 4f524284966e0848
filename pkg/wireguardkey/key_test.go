package wireguardkey

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestKeyPrintsNothingSecret(t *testing.T) {
	t.Parallel()
	key := keyOf(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key-1"},
		Data:       map[string][]byte{ConfigKey: []byte(config("key-1"))},
	})
	whole := config("key-1")
	secrets := []string{
		privateKey("key-1"), fmt.Sprintf("%x", privateKey("key-1")), fmt.Sprintf("%X", privateKey("key-1")),
		strings.Trim(fmt.Sprint([]byte(privateKey("key-1"))), "[]"), base64.StdEncoding.EncodeToString([]byte(whole)), "PrivateKey",
	}
	type hidden struct{ key Key }
	for name, value := range map[string]any{
		"value": key, "pointer": &key, "slice": []Key{key}, "map": map[string]Key{"a": key}, "exported field": struct{ Key Key }{key},
		"unexported field": hidden{key}, "pointer to unexported": &hidden{key}, "map key": map[Key]int{key: 1},
	} {
		for printer, text := range printed(value) {
			for _, secret := range secrets {
				if strings.Contains(text, secret) {
					t.Fatalf("%s by %s: %s", name, printer, text)
				}
			}
		}
	}
	for format := range strings.FieldsSeq("%v %+v %#v %s %q %d") {
		if got := fmt.Sprintf(format, key); got != "key-1" {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// printed is what a value looks like in everything that prints.
func printed(value any) map[string]string {
	out := map[string]string{}
	for _, verb := range "vTtbcdoOqxXUeEfFgGspw!" {
		for _, flags := range []string{"", "+", "#", " ", "-20", "020", ".3"} {
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, value)
		}
	}
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

func TestFreeAndLost(t *testing.T) {
	t.Parallel()
	a, b := string(instanceA), string(instanceB)
	type m = map[string]string
	for _, tc := range []struct {
		name        string
		labels      m
		annotations m
		free        bool
		lostBy      string
	}{
		{"free", m{InstanceLabel: ""}, nil, true, ""},
		{"free, released before", m{InstanceLabel: ""}, m{releasedAt: "2026-01-01T00:00:00Z"}, true, ""},
		{"not in the pool", nil, nil, false, ""},
		{"held", m{InstanceLabel: a}, m{allocatedTo: a}, false, ""},
		{"held, labelled by hand", m{InstanceLabel: a}, nil, false, ""},
		{"reserved by hand", m{InstanceLabel: "reserved"}, nil, false, ""},
		{"emptied", m{InstanceLabel: ""}, m{allocatedTo: a}, false, a},
		{"removed", nil, m{allocatedTo: a}, false, a},
		{"emptied, marked", m{InstanceLabel: ""}, m{allocatedTo: a, handedOutTo: a}, false, a},
		{"the mark counts more", m{InstanceLabel: ""}, m{allocatedTo: a, handedOutTo: b}, false, b},
		{"only the mark", m{InstanceLabel: ""}, m{handedOutTo: a}, false, a},
		{"nonsense", m{InstanceLabel: ""}, m{allocatedTo: "nonsense"}, false, ""},
	} {
		o := &metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}
		if got := free(o); got != tc.free {
			t.Errorf("%s: free is %v", tc.name, got)
		}
		id, isLost := lost(o)
		if string(id) != tc.lostBy || isLost != (tc.lostBy != "") {
			t.Errorf("%s: lost by %q, %v", tc.name, id, isLost)
		}
	}
}

func TestRankSpreads(t *testing.T) {
	t.Parallel()
	for _, names := range []struct {
		format string
		n      int
	}{{"wireguard-key-%d", 10}, {"wireguard-key-%02d", 100}, {"k%d", 5}, {"%c", 20}} {
		first := map[string]int{}
		const instances = 2000
		for i := range instances {
			var best string
			var lowest uint64
			for k := range names.n {
				arg := k
				if names.format == "%c" {
					arg += 'a'
				}
				name := fmt.Sprintf(names.format, arg)
				if r := rank(instanceNumber(i), name); best == "" || r < lowest {
					best, lowest = name, r
				}
			}
			first[best]++
		}
		fair := float64(instances) / float64(names.n)
		for name, got := range first {
			if f := float64(got); f > 2.5*fair || f < fair/3 {
				t.Errorf("%s of %d is the first choice of %d instances of %d, want about %.0f", name, names.n, got, instances, fair)
			}
		}
		if len(first) != names.n {
			t.Errorf("%s: only %d of %d keys are ever the first choice", names.format, len(first), names.n)
		}
	}
}
