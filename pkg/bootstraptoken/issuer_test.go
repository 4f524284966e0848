package bootstraptoken

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

const testInstance instance.ID = "i-0123456789abcdef0"

func testRequest() Request {
	return Request{
		Instance: instance.Instance{ID: testInstance, Type: "t3.small", Zone: "us-east-2a", PrivateDNSName: "ip-10-0-0-1.internal"},
		Profile:  "worker",
		KeyName:  "key-1",
		Settings: Settings{TTL: time.Hour, ExtraGroups: []string{"system:bootstrappers:a", "system:bootstrappers:b"}},
	}
}

// cluster is an API server with an Issuer, and a hand that meddles.
type cluster struct {
	*Issuer
	server *apitest.Server
	hand   *apitest.SecretClient
	hook   apitest.Hook
}

func newCluster() *cluster {
	c := &cluster{server: apitest.NewServer()}
	c.hand = c.server.Client(nil).Secrets(metav1.NamespaceSystem)
	c.Issuer = NewIssuer(c.server.Client(func(ctx context.Context, call apitest.Call) error {
		if c.hook == nil {
			return nil
		}
		return c.hook(ctx, call)
	}).Secrets(metav1.NamespaceSystem))
	return c
}

func (c *cluster) secrets(t *testing.T) []corev1.Secret {
	t.Helper()
	list, err := c.hand.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// edit changes a Secret by hand.
func (c *cluster) edit(t *testing.T, name string, f func(*corev1.Secret)) {
	t.Helper()
	secret, err := c.hand.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f(secret)
	if _, err := c.hand.Update(context.Background(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) put(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	if _, err := c.hand.Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) create(t *testing.T, r Request) Claim {
	t.Helper()
	claim, created, err := c.Create(context.Background(), r)
	if err != nil || !created {
		t.Fatalf("create: created %v, %v", created, err)
	}
	return claim
}

func TestCreateWritesTheSecretInFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		claim := c.create(t, testRequest())
		all := c.secrets(t)
		if len(all) != 1 {
			t.Fatalf("%d Secrets", len(all))
		}
		s := all[0]
		tokenID := deriveID(testInstance, 0)
		if s.Name != "bootstrap-token-"+tokenID || s.Namespace != "kube-system" || s.Type != "bootstrap.kubernetes.io/token" {
			t.Errorf("name %s, namespace %s, type %s", s.Name, s.Namespace, s.Type)
		}
		wantData := map[string]string{
			"token-id":                       tokenID,
			"token-secret":                   string(s.Data["token-secret"]),
			"expiration":                     "2000-01-01T01:00:00Z",
			"usage-bootstrap-authentication": "true",
			"auth-extra-groups":              "system:bootstrappers:a,system:bootstrappers:b",
			"description":                    "EC2 instance i-0123456789abcdef0",
		}
		if !equalData(s.Data, wantData) {
			t.Errorf("data keys %v", slices.Sorted(maps.Keys(s.Data)))
		}
		if token := tokenID + "." + string(s.Data["token-secret"]); !bootstraputil.IsValidBootstrapToken(token) || claim.Token.Reveal() != token {
			t.Error("token is not valid, or not the claim's")
		}
		const p = "dynk8s.du5t1n.me/"
		if want := map[string]string{p + "ec2-instance-id": string(testInstance)}; !maps.Equal(s.Labels, want) {
			t.Errorf("labels %v", s.Labels)
		}
		if want := map[string]string{
			p + "ec2-instance-id": string(testInstance), p + "wireguard-key": "key-1", p + "profile": "worker", p + "zone": "us-east-2a",
			p + "private-dns-name": "ip-10-0-0-1.internal", p + "instance-type": "t3.small",
		}; !maps.Equal(s.Annotations, want) {
			t.Errorf("annotations %v", s.Annotations)
		}
		if claim.InstanceID != testInstance || claim.KeyName != "key-1" || claim.Profile != "worker" || claim.Zone != "us-east-2a" ||
			claim.InstanceType != "t3.small" || claim.PrivateDNSName != "ip-10-0-0-1.internal" ||
			!claim.Created.Equal(time.Now()) || !claim.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("claim %+v", claim)
		}
	})
}

func equalData(got map[string][]byte, want map[string]string) bool {
	return maps.EqualFunc(got, want, func(a []byte, b string) bool { return string(a) == b })
}

func TestCreateLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.create(t, Request{Instance: instance.Instance{ID: testInstance}, KeyName: "k", Settings: Settings{TTL: time.Hour, Signing: true}})
	s := c.secrets(t)[0]
	if _, there := s.Data["auth-extra-groups"]; there {
		t.Error("empty extra groups are written; the authenticator refuses them")
	}
	if string(s.Data["usage-bootstrap-signing"]) != "true" {
		t.Error("signing is not allowed")
	}
	if len(s.Annotations) != 2 {
		t.Errorf("annotations %v", s.Annotations)
	}
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	c := newCluster()
	first := c.create(t, testRequest())
	if _, err := c.Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := c.create(t, testRequest())
	if first.Token.ID() != second.Token.ID() || first.Token.Reveal() == second.Token.Reveal() {
		t.Errorf("%s and %s: want the same id and another secret", first.Token, second.Token)
	}
}

func TestCreateFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	c := newCluster()
	first := c.create(t, testRequest())
	r := testRequest()
	r.KeyName = "key-2"
	second, created, err := c.Create(t.Context(), r)
	if err != nil || created || second.KeyName != "key-1" || second.Token.Reveal() != first.Token.Reveal() {
		t.Errorf("got %+v, created %v, %v; want the first claim", second, created, err)
	}
}

func TestCreatePassesForeignSecretsOver(t *testing.T) {
	t.Parallel()
	named := func(n int, f func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{Type: corev1.SecretTypeBootstrapToken}
		s.Name = bootstraputil.BootstrapTokenSecretName(deriveID(testInstance, n))
		f(s)
		return s
	}
	foreign := map[string]func(*corev1.Secret){
		"kubeadm's own":        func(*corev1.Secret) {},
		"another instance's":   func(s *corev1.Secret) { s.Labels = map[string]string{InstanceLabel: "i-abcd1111"} },
		"another's, annotated": func(s *corev1.Secret) { s.Annotations = map[string]string{InstanceLabel: "i-abcd1111"} },
		"of another type": func(s *corev1.Secret) {
			s.Type = "Opaque"
			s.Labels = map[string]string{InstanceLabel: string(testInstance)}
		},
		"relabelled to another": func(s *corev1.Secret) {
			s.Labels = map[string]string{InstanceLabel: "i-abcd1111"}
			s.Annotations = map[string]string{InstanceLabel: string(testInstance)}
		},
		"annotated, other type ": func(s *corev1.Secret) {
			s.Type = "Opaque"
			s.Annotations = map[string]string{InstanceLabel: string(testInstance)}
		},
	}
	for name, f := range foreign {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.put(t, named(0, f))
			c.put(t, named(1, f))
			before := c.secrets(t)
			claim := c.create(t, testRequest())
			if claim.Token.ID() != deriveID(testInstance, 2) {
				t.Errorf("token id %s, want the third derivation", claim.Token.ID())
			}
			for _, old := range before {
				if now, err := c.hand.Get(t.Context(), old.Name, metav1.GetOptions{}); err != nil || now.ResourceVersion != old.ResourceVersion {
					t.Errorf("the foreign Secret was touched: %v", err)
				}
			}
			if found, err := c.Find(t.Context(), testInstance); err != nil || found.Token.ID() != claim.Token.ID() {
				t.Errorf("find: %v, %v", found.Token, err)
			}
			if again, created, err := c.Create(t.Context(), testRequest()); err != nil || created || again.Token.ID() != claim.Token.ID() {
				t.Errorf("create again: %v, created %v, %v", again.Token, created, err)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		c := newCluster()
		for n := range maxDerivations {
			c.put(t, named(n, func(*corev1.Secret) {}))
		}
		if _, created, err := c.Create(t.Context(), testRequest()); err == nil || created {
			t.Errorf("created %v, %v", created, err)
		}
	})
}

func TestCreateAdoptsItsOwnWithoutLabel(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*corev1.Secret){
		"label removed": func(s *corev1.Secret) { s.Labels = nil },
		"label emptied": func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			first := c.create(t, testRequest())
			c.edit(t, first.name, damage)
			if _, err := c.Find(t.Context(), testInstance); !errors.Is(err, ErrNotFound) {
				t.Fatalf("find: %v", err)
			}
			claim, created, err := c.Create(t.Context(), testRequest())
			if err != nil || created || claim.Token.Reveal() != first.Token.Reveal() {
				t.Errorf("got %v, created %v, %v; want the old token", claim.Token, created, err)
			}
			if n := len(c.secrets(t)); n != 1 {
				t.Errorf("%d tokens", n)
			}
			if _, err := c.Find(t.Context(), testInstance); err != nil {
				t.Errorf("the label was not put back: %v", err)
			}
		})
	}
}

func TestRacingCreatorsMakeOneClaim(t *testing.T) {
	t.Parallel()
	c := newCluster()
	claims := make([]Claim, 16)
	var made sync.Map
	var group sync.WaitGroup
	for i := range claims {
		group.Go(func() {
			r := testRequest()
			r.KeyName = "key-" + string(rune('a'+i))
			claim, created, err := c.Create(context.Background(), r)
			if err != nil {
				t.Error(err)
			}
			if created {
				made.Store(i, true)
			}
			claims[i] = claim
		})
	}
	group.Wait()
	n := 0
	made.Range(func(_, _ any) bool { n++; return true })
	if n != 1 || len(c.secrets(t)) != 1 {
		t.Errorf("%d creators won, %d tokens", n, len(c.secrets(t)))
	}
	for _, claim := range claims {
		if claim.KeyName != claims[0].KeyName || claim.uid != claims[0].uid {
			t.Errorf("they differ: %+v %+v", claim, claims[0])
		}
	}
}

func TestCreateWhenTheExistingOneVanishes(t *testing.T) {
	t.Parallel()
	c := newCluster()
	first := c.create(t, testRequest())
	c.hook = func(ctx context.Context, call apitest.Call) error {
		if call.Verb == "get" {
			return c.hand.Delete(ctx, first.name, metav1.DeleteOptions{})
		}
		return nil
	}
	if claim, created, err := c.Create(t.Context(), testRequest()); err == nil || created {
		t.Errorf("got %+v, created %v", claim, created)
	}
	c.hook = nil
	c.create(t, testRequest())
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		claim := c.create(t, testRequest())
		for _, tc := range []struct {
			written string
			want    bool
		}{
			{time.Now().Add(time.Second).UTC().Format(time.RFC3339), false},
			{time.Now().UTC().Format(time.RFC3339), true}, // the API server refuses it from that second on
			{time.Now().Add(-time.Second).UTC().Format(time.RFC3339), true},
			{time.Now().Add(time.Hour).In(time.FixedZone("", 7200)).Format(time.RFC3339), false},
			{"", true},
			{"tomorrow", true},
			{"2100-01-01", true},
		} {
			c.edit(t, claim.name, func(s *corev1.Secret) { s.Data["expiration"] = []byte(tc.written) })
			found, err := c.Find(t.Context(), testInstance)
			if err != nil || found.Expired(time.Now()) != tc.want {
				t.Errorf("%q: expired %v, %v", tc.written, !tc.want, err)
			}
		}
		c.edit(t, claim.name, func(s *corev1.Secret) { delete(s.Data, "expiration") })
		if found, _ := c.Find(t.Context(), testInstance); !found.Expired(time.Now()) || !found.Expires.IsZero() {
			t.Errorf("without the field: %v", found.Expires)
		}
	})
}

func TestRenewAndMoveTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		claim := c.create(t, testRequest())
		time.Sleep(30 * time.Minute)
		renewed, err := c.Renew(t.Context(), claim, 2*time.Hour)
		if err != nil || !renewed.Expires.Equal(time.Now().Add(2*time.Hour)) || renewed.Token.Reveal() != claim.Token.Reveal() ||
			!renewed.Created.Equal(claim.Created) || renewed.KeyName != "key-1" {
			t.Errorf("renewed: %+v, %v", renewed, err)
		}
		moved, err := c.MoveTo(t.Context(), renewed, "key-2")
		if err != nil || moved.KeyName != "key-2" || moved.uid != claim.uid || !moved.Expires.Equal(renewed.Expires) {
			t.Errorf("moved: %+v, %v", moved, err)
		}
		if found, err := c.Find(t.Context(), testInstance); err != nil || found.KeyName != "key-2" {
			t.Errorf("found: %+v, %v", found, err)
		}
	})
}

// changes are all ways to change a claim that was read.
func changes(c *cluster) map[string]func(context.Context, Claim) error {
	return map[string]func(context.Context, Claim) error{
		"renew": func(ctx context.Context, claim Claim) error { _, err := c.Renew(ctx, claim, time.Hour); return err },
		"describe": func(ctx context.Context, claim Claim) error {
			_, err := c.Describe(ctx, claim, instance.Instance{Zone: "us-east-2b"})
			return err
		},
		"moveTo": func(ctx context.Context, claim Claim) error { _, err := c.MoveTo(ctx, claim, "key-9"); return err },
		"revokeUnchanged": func(ctx context.Context, claim Claim) error {
			_, err := c.RevokeUnchanged(ctx, claim)
			return err
		},
	}
}

func TestStaleClaimsAreNotChanged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for verb := range changes(nil) {
		for _, when := range []string{"before", "between read and write"} {
			t.Run(verb+", changed "+when, func(t *testing.T) {
				t.Parallel()
				c := newCluster()
				claim := c.create(t, testRequest())
				meddle := func() { c.edit(t, claim.name, func(s *corev1.Secret) { s.Annotations["hand"] = "was here" }) }
				if when == "before" {
					meddle()
				} else {
					c.hook = func(_ context.Context, call apitest.Call) error {
						if call.Verb != "get" {
							meddle()
						}
						return nil
					}
				}
				if err := changes(c)[verb](ctx, claim); !errors.Is(err, ErrConflict) {
					t.Errorf("got %v, want a conflict", err)
				}
				if s := c.secrets(t); len(s) != 1 || s[0].Annotations[keyAnnotation] != "key-1" || s[0].Annotations[zoneAnnotation] != "us-east-2a" || s[0].Annotations["hand"] == "" {
					t.Errorf("it was changed all the same: %d", len(s))
				}
			})
		}
		t.Run(verb+", replaced", func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			claim := c.create(t, testRequest())
			if _, err := c.Revoke(ctx, claim); err != nil {
				t.Fatal(err)
			}
			c.create(t, testRequest())
			if err := changes(c)[verb](ctx, claim); !errors.Is(err, ErrConflict) {
				t.Errorf("got %v, want a conflict", err)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		c := newCluster()
		claim := c.create(t, testRequest())
		if _, err := c.Revoke(ctx, claim); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(ctx, claim, time.Hour); !errors.Is(err, ErrConflict) {
			t.Errorf("renew: %v", err)
		}
		if _, err := c.MoveTo(ctx, claim, "k"); !errors.Is(err, ErrConflict) {
			t.Errorf("move: %v", err)
		}
		if revoked, err := c.RevokeUnchanged(ctx, claim); err != nil || revoked {
			t.Errorf("revoke: %v, %v", revoked, err)
		}
	})
	t.Run("removed between read and write", func(t *testing.T) {
		t.Parallel()
		c := newCluster()
		claim := c.create(t, testRequest())
		c.hook = func(ctx context.Context, call apitest.Call) error {
			if call.Verb == "update" {
				return c.hand.Delete(ctx, claim.name, metav1.DeleteOptions{})
			}
			return nil
		}
		if _, err := c.Renew(ctx, claim, time.Hour); !errors.Is(err, ErrConflict) {
			t.Errorf("renew: %v", err)
		}
	})
}

func TestRevokeIsBoundToTheObject(t *testing.T) {
	t.Parallel()
	c := newCluster()
	claim := c.create(t, testRequest())
	c.edit(t, claim.name, func(s *corev1.Secret) { s.Annotations["hand"] = "was here" })
	if revoked, err := c.Revoke(t.Context(), claim); err != nil || !revoked {
		t.Errorf("changed since: %v, %v", revoked, err)
	}
	if revoked, err := c.Revoke(t.Context(), claim); err != nil || revoked {
		t.Errorf("gone: %v, %v", revoked, err)
	}
	next := c.create(t, testRequest())
	if revoked, err := c.Revoke(t.Context(), claim); !errors.Is(err, ErrConflict) || revoked {
		t.Errorf("replaced: %v, %v", revoked, err)
	}
	if current, err := c.Current(t.Context(), next); err != nil || !current {
		t.Errorf("the new one was harmed: %v, %v", current, err)
	}
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(*testing.T, *cluster, Claim)
		want   bool
	}{
		{"untouched", func(*testing.T, *cluster, Claim) {}, true},
		{"renewed", func(t *testing.T, c *cluster, claim Claim) { _, _ = c.Renew(t.Context(), claim, time.Hour) }, true},
		{"moved", func(t *testing.T, c *cluster, claim Claim) { _, _ = c.MoveTo(t.Context(), claim, "key-2") }, false},
		{"gone", func(t *testing.T, c *cluster, claim Claim) { _, _ = c.Revoke(t.Context(), claim) }, false},
		{"replaced", func(t *testing.T, c *cluster, claim Claim) {
			_, _ = c.Revoke(t.Context(), claim)
			c.create(t, testRequest())
		}, false},
		{"label removed", func(t *testing.T, c *cluster, claim Claim) {
			c.edit(t, claim.name, func(s *corev1.Secret) { s.Labels = nil })
		}, false},
		{"relabelled", func(t *testing.T, c *cluster, claim Claim) {
			c.edit(t, claim.name, func(s *corev1.Secret) { s.Labels[InstanceLabel] = "i-abcd1111" })
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			claim := c.create(t, testRequest())
			tc.damage(t, c, claim)
			if current, err := c.Current(t.Context(), claim); err != nil || current != tc.want {
				t.Errorf("got %v, %v", current, err)
			}
		})
	}
}

func TestListsHoldOnlyOurs(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.create(t, testRequest())
	other := testRequest()
	other.Instance.ID = "i-abcd1111"
	c.create(t, other)
	for name, labels := range map[string]map[string]string{"kubeadm": nil, "odd": {InstanceLabel: "none"}, "empty": {InstanceLabel: ""}} {
		c.put(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Type: corev1.SecretTypeBootstrapToken})
	}
	c.put(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "opaque", Labels: map[string]string{InstanceLabel: string(testInstance)}}})

	all, err := c.All(t.Context())
	if err != nil || len(all) != 2 || strings.Compare(all[0].name, all[1].name) >= 0 {
		t.Errorf("all: %v, %v", all, err)
	}
	one, err := c.FindAll(t.Context(), testInstance)
	if err != nil || len(one) != 1 || one[0].InstanceID != testInstance {
		t.Errorf("find all: %v, %v", one, err)
	}
	if _, err := c.Find(t.Context(), "i-00000000"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestErrorsOfTheAPIServerComeThrough(t *testing.T) {
	t.Parallel()
	c := newCluster()
	claim := c.create(t, testRequest())
	busy := apierrors.NewTooManyRequests("later", 1)
	c.hook = func(context.Context, apitest.Call) error { return busy }
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create":  func() error { _, _, err := c.Create(ctx, testRequest()); return err },
		"find":    func() error { _, err := c.Find(ctx, testInstance); return err },
		"all":     func() error { _, err := c.All(ctx); return err },
		"renew":   func() error { _, err := c.Renew(ctx, claim, time.Hour); return err },
		"current": func() error { _, err := c.Current(ctx, claim); return err },
		"revoke":  func() error { _, err := c.Revoke(ctx, claim); return err },
	} {
		if err := call(); !errors.Is(err, busy) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A conflict is one only of the write; and the write's other errors stay.
	c.hook = func(_ context.Context, call apitest.Call) error {
		if call.Verb == "update" {
			return busy
		}
		return nil
	}
	if _, err := c.MoveTo(ctx, claim, "k"); !errors.Is(err, busy) {
		t.Errorf("update: %v", err)
	}
	c.hook = func(_ context.Context, call apitest.Call) error {
		if call.Verb == "get" {
			return busy
		}
		return nil
	}
	if _, created, err := c.Create(ctx, testRequest()); !errors.Is(err, busy) || created {
		t.Errorf("read after AlreadyExists: %v", err)
	}
}

func TestACreateWhoseAnswerWasLostIsFound(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.hook = func(context.Context, apitest.Call) error {
		return apitest.AnswerLost(apierrors.NewTimeoutError("timed out", 1))
	}
	if _, created, err := c.Create(t.Context(), testRequest()); err == nil || created {
		t.Errorf("created %v, %v", created, err)
	}
	c.hook = nil
	r := testRequest()
	r.KeyName = "key-2"
	claim, created, err := c.Create(t.Context(), r)
	if err != nil || created || claim.KeyName != "key-1" || len(c.secrets(t)) != 1 {
		t.Errorf("%+v, created %v, %v", claim, created, err)
	}
}

func TestFindAllAdoptsAClaimWithoutLabel(t *testing.T) {
	t.Parallel()
	c := newCluster()
	first := c.create(t, testRequest())
	c.edit(t, first.name, func(s *corev1.Secret) { s.Labels = nil })
	found, err := c.FindAll(t.Context(), testInstance)
	if err != nil || len(found) != 1 || found[0].Token.Reveal() != first.Token.Reveal() {
		t.Fatalf("%v, %v", found, err)
	}
	if revoked, err := c.Revoke(t.Context(), found[0]); err != nil || !revoked {
		t.Errorf("revoke: %v, %v", revoked, err)
	}
	if found, err = c.FindAll(t.Context(), testInstance); err != nil || len(found) != 0 {
		t.Errorf("after it: %v, %v", found, err)
	}
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: first.name}, Type: corev1.SecretTypeBootstrapToken}
	c.put(t, foreign)
	if found, err = c.FindAll(t.Context(), testInstance); err != nil || len(found) != 0 {
		t.Errorf("another's: %v, %v", found, err)
	}
}

func TestFindAllErrors(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	for _, verb := range []string{"list", "get", "update"} {
		c := newCluster()
		claim := c.create(t, testRequest())
		c.edit(t, claim.name, func(s *corev1.Secret) { s.Labels = nil })
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == verb {
				return busy
			}
			return nil
		}
		if found, err := c.FindAll(t.Context(), testInstance); !errors.Is(err, busy) || found != nil {
			t.Errorf("%s: %v, %v", verb, found, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	c := newCluster()
	r := testRequest()
	full := r.Instance
	r.Instance.PrivateDNSName, r.Instance.Type = "", ""
	claim := c.create(t, r)
	if claim.Lacks(r.Instance) || !claim.Lacks(full) || claim.Lacks(instance.Instance{ID: testInstance}) {
		t.Error("lacks what EC2 does not know, or does not lack what it does")
	}
	full.Zone = "us-east-2z" // what is there stays
	claim, err := c.Describe(t.Context(), claim, full)
	if err != nil || claim.PrivateDNSName != full.PrivateDNSName || claim.InstanceType != full.Type || claim.Zone != "us-east-2a" ||
		claim.KeyName != "key-1" || claim.Lacks(full) {
		t.Errorf("%+v, %v", claim, err)
	}
}
