package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

func TestGrantIsWhatWasGiven(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		r.admit(instanceA)
		r.client.Forget()
		g := r.grant(instanceA)
		s := w.claimsOf(instanceA)[0]
		if g.Instance != instanceA || g.Profile != "worker" || g.Zone != "us-east-2a" || g.InstanceType != "t3.small" ||
			g.PrivateDNSName != "ip-10-0-0-1.internal" || g.ProviderID() != "aws:///us-east-2a/i-0000000000000000a" {
			t.Errorf("%+v", g)
		}
		if want := string(s.Data["token-id"]) + "." + string(s.Data["token-secret"]); g.Token.Reveal() != want {
			t.Error("another token")
		}
		if key := w.keysOf(instanceA)[0]; string(g.WireGuardConfig) != configOf(key) {
			t.Error("another configuration")
		}
		first := r.client.Count()
		if again := r.grant(instanceA); again.Token.Reveal() != g.Token.Reveal() || r.client.Count("update") != 1 {
			t.Errorf("again: %v", r.client.Calls()[first:])
		}
	})
}

// The mark is written before the answer, and the claim read after the mark.
func TestGrantMarksBeforeItAnswers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		r.client.Forget()
		r.grant(instanceA)
		var verbs []string
		for _, c := range r.client.Calls() {
			verbs = append(verbs, c.Verb+" "+c.Namespace)
		}
		if got := strings.Join(verbs, ", "); got != "list kube-system, list dynk8s, update dynk8s, get kube-system" {
			t.Errorf("calls: %s", got)
		}
	})
}

func TestGrantRefuses(t *testing.T) {
	t.Parallel()
	mark := func(id instance.ID) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Annotations[handedOutTo] = string(id) }
	}
	for name, tc := range map[string]struct {
		damage  func(*world, *replica)
		unmarks bool // the key stays without a mark
	}{
		"nothing there": {func(w *world, r *replica) { r.handle(instanceA, instance.Terminated, "retired") }, true},
		"shutting down": {func(w *world, r *replica) { r.handle(instanceA, instance.ShuttingDown, "closed") }, true},
		"no claim":      {func(w *world, _ *replica) { w.removeClaims(instanceA) }, true},
		"expired claim": {func(*world, *replica) { time.Sleep(ttl) }, true},
		"unparsable expiry": {func(w *world, _ *replica) {
			w.editClaim(instanceA, func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") })
		}, true},
		"key not labelled":    {func(w *world, _ *replica) { w.freeKeys(instanceA) }, true},
		"key is another's":    {func(w *world, r *replica) { w.freeKeys(instanceA); w.claimsPointedAt(instanceB) }, true},
		"claim moved":         {func(w *world, _ *replica) { w.pointTo(w.aFreeKey()) }, true},
		"claim names nothing": {func(w *world, _ *replica) { w.pointTo("") }, true},
		"another key was handed out": {func(w *world, _ *replica) {
			other := w.aFreeKey()
			w.editKey(other, func(s *corev1.Secret) {
				s.Labels[label] = string(instanceA)
				s.Annotations = map[string]string{handedOutTo: string(instanceA)}
			})
		}, true},
		"key marked for another": {func(w *world, _ *replica) { w.editKey(w.keysOf(instanceA)[0], mark(instanceB)) }, false},
		"broken configuration": {func(w *world, _ *replica) {
			w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Data["wireguard-config"] = []byte("broken") })
		}, true},
		"joined": {func(w *world, r *replica) {
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionTrue)
			r.reconcile(1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2", "key-3")
				r := w.start()
				r.admit(instanceA)
				key := w.keysOf(instanceA)[0]
				tc.damage(w, r)
				g, err := r.Grant(t.Context(), instanceA)
				if err == nil || g.WireGuardConfig != nil || g.Token != (bootstraptoken.Token{}) {
					t.Errorf("given: %v, %v", g, err)
				}
				s, err := w.keys.Get(t.Context(), key, getOptions)
				if err == nil && tc.unmarks && s.Annotations[handedOutTo] != "" {
					t.Error("marked all the same")
				}
			})
		})
	}
}

// The three artifacts of one instance may be fetched at the same time.
func TestTwoFetchesAtOnceBothSucceed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r, other := w.start(), w.start()
		r.admit(instanceA)
		done := false
		r.setHook(func(_ context.Context, c apitest.Call) error {
			if c.Verb == "update" && !done {
				done = true
				other.grant(instanceA)
			}
			return nil
		})
		r.grant(instanceA)
	})
}

// claimsPointedAt gives another instance the key that instance A's claim names.
func (w *world) claimsPointedAt(id instance.ID) {
	w.editKey(w.claimsOf(instanceA)[0].Annotations[claimedKey], func(s *corev1.Secret) {
		s.Labels[label] = string(id)
		s.Annotations = map[string]string{allocatedTo: string(id)}
	})
}

func TestGrantSaysWhenThereIsNothing(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		if _, err := r.Grant(t.Context(), instanceA); !errors.Is(err, lifecycle.ErrNotAllocated) {
			t.Errorf("unknown: %v", err)
		}
		r.handle(instanceA, instance.ShuttingDown, "gone")
		r.client.Forget()
		if _, err := r.Grant(t.Context(), instanceA); !errors.Is(err, lifecycle.ErrClosed) || r.client.Count() != 0 {
			t.Errorf("buried: %v, %v", err, r.client.Calls())
		}
	})
}

// What happens to the claim or the key before any call of a grant: either the
// instance is given what is its own by the record, or it is given nothing.
func TestGrantUnderOurFeet(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]func(*world, *replica){
		"claim removed": func(w *world, _ *replica) { w.removeClaims(instanceA) },
		"claim replaced": func(w *world, r *replica) {
			w.removeClaims(instanceA)
			r.handleUntilSettled(instanceA, instance.Running)
		},
		"claim moved":   func(w *world, _ *replica) { w.pointTo(w.aFreeKey()) },
		"token expired": func(*world, *replica) { time.Sleep(ttl) },
		"retired": func(w *world, r *replica) {
			w.ec2.setState(instanceA, instance.Terminated)
			r.handleUntilSettled(instanceA, instance.Terminated)
		},
		"retired, key given to another": func(w *world, r *replica) {
			w.ec2.setState(instanceA, instance.Terminated)
			r.handleUntilSettled(instanceA, instance.Terminated)
			for _, key := range []string{"key-2", "key-3", "key-4"} { // so that B gets A's
				_ = w.keys.Delete(context.Background(), key, deleteOptions)
			}
			r.handleUntilSettled(instanceB, instance.Running)
			r.grant(instanceB)
		},
		"key taken back": func(w *world, _ *replica) { w.freeKeys(instanceA) },
	} {
		for _, marked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, marked before: %v", name, marked), func(t *testing.T) {
				t.Parallel()
				everyCall(t, func(t *testing.T, w *world, n int) bool {
					for _, key := range []string{"key-2", "key-3", "key-4"} {
						if name == "retired, key given to another" {
							_ = w.keys.Delete(t.Context(), key, deleteOptions)
						}
					}
					r, other := w.start(), w.start()
					r.admit(instanceA)
					if marked {
						r.grant(instanceA)
					}
					reached := false
					r.setHook(before(n, func() { reached = true; meddle(w, other) }))
					g, err := r.Grant(t.Context(), instanceA)
					if err == nil {
						if name != "key taken back" { // then a hand took what was in use
							w.truth.given(w, instanceA, g)
						}
						if reached && n > 0 && name != "token expired" && name != "key taken back" {
							t.Error("given all the same")
						}
					}
					if name == "key taken back" {
						clear(w.truth.marked)
					}
					return reached
				})
			})
		}
	}
}

func TestGrantPrintsNothingSecret(t *testing.T) {
	t.Parallel()
	g := lifecycle.Grant{
		Instance: instanceA, Token: bootstraptoken.NewToken("5emitj", "kq4gihvszzgn1p0r"), WireGuardConfig: []byte(configOf("key-1")),
	}
	var texts []string
	for _, verb := range "vTtbcdoOqxXUeEfFgGs" {
		for _, flag := range []string{"", "+", "#"} {
			for _, value := range []any{g, &g, []lifecycle.Grant{g}, struct{ G lifecycle.Grant }{g}} {
				texts = append(texts, fmt.Sprintf("%"+flag+string(verb), value))
			}
		}
	}
	text, err := json.Marshal(map[string]any{"grant": g})
	if err != nil {
		t.Error(err)
	}
	var log lockedBuffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "grant", g)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "grant", g)
	texts = append(texts, string(text), log.String())
	bytesOf := strings.Trim(fmt.Sprint([]byte(privatePart)), "[]")
	for _, text := range texts {
		if strings.Contains(text, privatePart) || strings.Contains(text, bytesOf) || strings.Contains(text, "kq4gihv") ||
			strings.Contains(text, fmt.Sprintf("%x", privatePart)) || strings.Contains(text, fmt.Sprintf("%X", privatePart)) {
			t.Fatal(text)
		}
	}
}
