package bootstraptoken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

func reissueRequest() Request {
	r := testRequest()
	r.Reissue = true
	return r
}

func TestAReissuedTokenSaysUntilWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		time.Sleep(300 * time.Millisecond) // both times lose their fraction alike
		claim := c.create(t, reissueRequest())
		s := c.secrets(t)[0]
		if got := s.Annotations["dynk8s.du5t1n.me/reissued-until"]; got != "2000-01-01T01:00:00Z" || got != string(s.Data["expiration"]) {
			t.Errorf("annotation %q, expiration %q", got, s.Data["expiration"])
		}
		found, err := c.Find(t.Context(), testInstance)
		if err != nil || !found.ReissuedUntil.Equal(claim.ReissuedUntil) || !claim.ReissuedUntil.Equal(claim.Expires) {
			t.Errorf("until %v and %v, expires %v, %v", claim.ReissuedUntil, found.ReissuedUntil, claim.Expires, err)
		}
		for when, want := range map[time.Time]bool{
			time.Now():                            true,
			claim.ReissuedUntil.Add(-1):           true,
			claim.ReissuedUntil:                   false,
			claim.ReissuedUntil.Add(time.Second):  false,
			claim.ReissuedUntil.Add(-time.Minute): true,
		} {
			if claim.Reissued(when) != want {
				t.Errorf("in force at %v: %v", when, !want)
			}
		}
	})
}

// What the caller says of the Ready Node comes back as it was, from the claim and
// from the cache.
func TestAReissuedTokenKeepsItsReadyNode(t *testing.T) {
	t.Parallel()
	for _, readyNode := range []string{"", "uid@2026-11-01T12:00:00Z"} {
		c := newCluster()
		tokens := NewCache(c.view().Indexer())
		r := reissueRequest()
		r.ReadyNode = readyNode
		claim := c.create(t, r)
		renewed, err := c.Renew(t.Context(), claim, time.Hour)
		if err != nil || claim.ReadyNode != readyNode || renewed.ReadyNode != readyNode {
			t.Errorf("%q: %q, renewed %q, %v", readyNode, claim.ReadyNode, renewed.ReadyNode, err)
		}
		if got, ok := tokens.Reissued(testInstance, time.Now()); got != readyNode || !ok {
			t.Errorf("%q: by the cache %q, %v", readyNode, got, ok)
		}
		if got, ok := tokens.Reissued(testInstance, time.Now().Add(time.Hour)); got != "" || ok {
			t.Errorf("%q: after its end %q, %v", readyNode, got, ok)
		}
	}
}

// It says so of a reissued token only.
func TestAnOrdinaryTokenHasNoReadyNode(t *testing.T) {
	t.Parallel()
	c := newCluster()
	r := testRequest()
	r.ReadyNode = "uid@2026-11-01T12:00:00Z"
	if claim := c.create(t, r); claim.ReadyNode != "" {
		t.Errorf("%q", claim.ReadyNode)
	}
}

func TestATokenThatNobodyAskedForIsNotReissued(t *testing.T) {
	t.Parallel()
	c := newCluster()
	claim := c.create(t, testRequest())
	if _, there := c.secrets(t)[0].Annotations[reissueAnnotation]; there || !claim.ReissuedUntil.IsZero() || claim.Reissued(time.Now()) {
		t.Errorf("until %v", claim.ReissuedUntil)
	}
	for _, text := range []string{"", "soon", "2100-01-01", "4102444800", "2100-01-01T00:00:00"} {
		c.edit(t, claim.name, func(s *corev1.Secret) { s.Annotations[reissueAnnotation] = text })
		if found, err := c.Find(t.Context(), testInstance); err != nil || found.Reissued(time.Now()) {
			t.Errorf("%q counts: %v", text, err)
		}
	}
}

// The right to fetch after the join ends at the first expiry, whatever is done to
// the token meanwhile.
func TestNothingProlongsAReissue(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *cluster, Claim) (Claim, error){
		"renewed": func(t *testing.T, c *cluster, claim Claim) (Claim, error) {
			return c.Renew(t.Context(), claim, 5*time.Hour)
		},
		"moved": func(t *testing.T, c *cluster, claim Claim) (Claim, error) {
			return c.MoveTo(t.Context(), claim, "key-2")
		},
		"created again": func(t *testing.T, c *cluster, _ Claim) (Claim, error) {
			again, _, err := c.Create(t.Context(), reissueRequest())
			return again, err
		},
		"described": func(t *testing.T, c *cluster, claim Claim) (Claim, error) {
			inst := testRequest().Instance
			inst.Zone = "us-east-2b"
			return c.Describe(t.Context(), claim, inst)
		},
		"adopted": func(t *testing.T, c *cluster, claim Claim) (Claim, error) {
			c.edit(t, claim.name, func(s *corev1.Secret) { s.Labels = nil })
			found, err := c.FindAll(t.Context(), testInstance)
			if err != nil || len(found) != 1 {
				return Claim{}, errors.Join(err, errors.New("not adopted"))
			}
			return found[0], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				claim := c.create(t, reissueRequest())
				time.Sleep(30 * time.Minute)
				changed, err := change(t, c, claim)
				if err != nil || !changed.ReissuedUntil.Equal(claim.ReissuedUntil) || changed.Token.Reveal() != claim.Token.Reveal() {
					t.Errorf("until %v, was %v, %v", changed.ReissuedUntil, claim.ReissuedUntil, err)
				}
			})
		})
	}
}

// A claim that is there keeps its rights: a reissue must replace it.
func TestCreateDoesNotTurnAClaimIntoAReissuedOne(t *testing.T) {
	t.Parallel()
	for _, there := range []Request{testRequest(), reissueRequest()} {
		c := newCluster()
		first := c.create(t, there)
		second := reissueRequest()
		second.Reissue = !there.Reissue
		claim, created, err := c.Create(t.Context(), second)
		if err != nil || created || claim.Reissued(time.Now()) != there.Reissue || claim.uid != first.uid {
			t.Errorf("%v, created %v, %v", claim.ReissuedUntil, created, err)
		}
	}
}

func TestByTokenID(t *testing.T) {
	t.Parallel()
	tokenID := deriveID(testInstance, 0)
	nothing := func(*testing.T, *cluster, Claim) {}
	change := func(f func(*corev1.Secret)) func(*testing.T, *cluster, Claim) {
		return func(t *testing.T, c *cluster, claim Claim) { t.Helper(); c.edit(t, claim.name, f) }
	}
	for name, tc := range map[string]struct {
		damage func(*testing.T, *cluster, Claim)
		ask    string
		found  bool
	}{
		"ours":          {nothing, tokenID, true},
		"ours, expired": {change(func(s *corev1.Secret) { s.Data["expiration"] = []byte("1999-01-01T00:00:00Z") }), tokenID, true},
		"another id":    {nothing, "000000", false},
		"no id":         {nothing, "", false},
		"upper case":    {nothing, "ABCDEF", false},
		"revoked": {func(t *testing.T, c *cluster, claim Claim) {
			t.Helper()
			if _, err := c.Revoke(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}, tokenID, false},
		"label removed":       {change(func(s *corev1.Secret) { s.Labels = nil }), tokenID, false},
		"label is nonsense":   {change(func(s *corev1.Secret) { s.Labels[InstanceLabel] = "reserved" }), tokenID, false},
		"says another id":     {change(func(s *corev1.Secret) { s.Data["token-id"] = []byte("abcdef") }), tokenID, false},
		"without data":        {change(func(s *corev1.Secret) { s.Data = nil }), tokenID, false},
		"kubeadm's own token": {kubeadmsToken, "kubeadm", false},
		"not a token at all":  {opaqueSecret, "opaque", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			claim := c.create(t, testRequest())
			tc.damage(t, c, claim)
			got, err := c.ByTokenID(t.Context(), tc.ask)
			if tc.found && (err != nil || got.InstanceID != testInstance || got.Token.Reveal() != claim.Token.Reveal()) {
				t.Errorf("%v, %v", got.Token, err)
			}
			if !tc.found && (!errors.Is(err, ErrNotFound) || got != (Claim{})) {
				t.Errorf("%v, %v; want not found", got.Token, err)
			}
		})
	}
}

func kubeadmsToken(t *testing.T, c *cluster, _ Claim) {
	t.Helper()
	c.put(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName("kubeadm")},
		Type:       corev1.SecretTypeBootstrapToken,
		Data:       map[string][]byte{"token-id": []byte("kubeadm"), "token-secret": []byte("kq4gihvszzgn1p0r")},
	})
}

func opaqueSecret(t *testing.T, c *cluster, _ Claim) {
	t.Helper()
	c.put(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName("opaque"), Labels: map[string]string{InstanceLabel: string(testInstance)}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"token-id": []byte("opaque")},
	})
}

func TestByTokenIDErrors(t *testing.T) {
	t.Parallel()
	c := newCluster()
	claim := c.create(t, testRequest())
	busy := apierrors.NewTooManyRequests("later", 1)
	c.hook = func(context.Context, apitest.Call) error { return busy }
	if got, err := c.ByTokenID(t.Context(), claim.Token.ID()); !errors.Is(err, busy) || errors.Is(err, ErrNotFound) || got != (Claim{}) {
		t.Errorf("%v, %v", got.Token, err)
	}
}
