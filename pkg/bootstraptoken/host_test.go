package bootstraptoken

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

func hostRequest() HostRequest {
	return HostRequest{Name: "worker-1", Profile: "home", Settings: Settings{
		TTL: time.Hour, ExtraGroups: []string{"system:bootstrappers:dynk8s"}, Signing: true,
	}}
}

func (c *cluster) hosts() *HostIssuer {
	return NewHostIssuer(c.server.Client(func(ctx context.Context, call apitest.Call) error {
		if c.hook == nil {
			return nil
		}
		return c.hook(ctx, call)
	}).Secrets(metav1.NamespaceSystem))
}

func TestEnsureHostToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		token, how, err := c.hosts().Ensure(t.Context(), hostRequest())
		if err != nil || how != Made || token.Host != "worker-1" || token.Profile != "home" {
			t.Fatal(token, how, err)
		}
		secret := c.secrets(t)[0]
		if secret.Name != "bootstrap-token-"+token.Token.ID() || secret.Type != corev1.SecretTypeBootstrapToken ||
			!maps.Equal(secret.Labels, map[string]string{HostLabel: "worker-1"}) {
			t.Errorf("%s %s %v", secret.Name, secret.Type, secret.Labels)
		}
		data := map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		id, tokenSecret, _ := strings.Cut(token.Token.Reveal(), ".")
		if want := map[string]string{
			"token-id": id, "token-secret": tokenSecret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:dynk8s", "description": "host worker-1",
			"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		}; !maps.Equal(data, want) || !bootstraputil.IsValidBootstrapToken(token.Token.Reveal()) {
			t.Errorf("data %v", data)
		}
		time.Sleep(10 * time.Minute)
		again, how, err := c.hosts().Ensure(t.Context(), hostRequest())
		if err != nil || how != Renewed || again.Token.Reveal() != token.Token.Reveal() || !again.Expires.Equal(token.Expires.Add(10*time.Minute)) {
			t.Error(again, how, err)
		}
		short := hostRequest()
		short.Settings = Settings{TTL: time.Minute, ExtraGroups: []string{"system:bootstrappers:other"}}
		short.Profile = ""
		kept, how, err := c.hosts().Ensure(t.Context(), short)
		if err != nil || how != Kept || !kept.Expires.Equal(again.Expires) || kept.Profile != "" || kept.UID() != token.UID() {
			t.Error(kept, how, err)
		}
		if groups := c.secrets(t)[0].Data["auth-extra-groups"]; string(groups) != "system:bootstrappers:other" {
			t.Errorf("groups %s", groups)
		}
		time.Sleep(2 * time.Hour)
		fresh, how, err := c.hosts().Ensure(t.Context(), hostRequest())
		if err != nil || how != Made || fresh.Token.Reveal() == token.Token.Reveal() || fresh.UID() == token.UID() || len(c.secrets(t)) != 1 {
			t.Error(fresh, how, err)
		}
	})
}

// A Secret that somebody else has under the derived name is not touched.
func TestHostTokenBesideAnother(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"nobody's":    nil,
		"a host's":    {HostLabel: "other"},
		"an instance": {InstanceLabel: string(testInstance)},
		"of both":     {HostLabel: "worker-1", InstanceLabel: string(testInstance)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			first := bootstraputil.BootstrapTokenSecretName(deriveFrom(HostLabel+"=worker-1", 0))
			before, err := c.hand.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: first, Labels: labels}, Type: corev1.SecretTypeBootstrapToken,
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			token, how, err := c.hosts().Ensure(t.Context(), hostRequest())
			if err != nil || how != Made || token.name == first {
				t.Error(token, how, err)
			}
			after, err := c.hand.Get(t.Context(), first, metav1.GetOptions{})
			if err != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

// Instances' tokens and hosts' tokens do not see one another.
func TestHostsAndInstancesAreApart(t *testing.T) {
	t.Parallel()
	c := newCluster()
	host, _, err := c.hosts().Ensure(t.Context(), hostRequest())
	if err != nil {
		t.Fatal(err)
	}
	claim, _, err := c.Create(t.Context(), testRequest())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ByTokenID(t.Context(), host.Token.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("the host's token is an instance's: %v", err)
	}
	if _, err := c.hosts().ByTokenID(t.Context(), claim.Token.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("the instance's token is a host's: %v", err)
	}
	if got, err := c.hosts().ByTokenID(t.Context(), host.Token.ID()); err != nil || got.Host != "worker-1" {
		t.Error(got, err)
	}
	claims, err := c.All(t.Context())
	hosts, hostErr := c.hosts().All(t.Context())
	if err != nil || hostErr != nil || len(claims) != 1 || len(hosts) != 1 {
		t.Error(claims, hosts, err, hostErr)
	}
	// A host with an instance's id for its name has other token ids than the instance.
	if deriveFrom(HostLabel+"="+string(testInstance), 0) == deriveID(testInstance, 0) {
		t.Error("ids are derived alike")
	}
	if text := fmt.Sprintf("%v %+v %s", host, host, host.Token); strings.Contains(text, strings.SplitN(host.Token.Reveal(), ".", 2)[1]) {
		t.Error("a host's token prints its secret")
	}
}

func TestManyEnsureOneHostToken(t *testing.T) {
	t.Parallel()
	c := newCluster()
	var group sync.WaitGroup
	tokens := make([]string, 8)
	for n := range tokens {
		group.Go(func() {
			token, _, err := c.hosts().Ensure(t.Context(), hostRequest())
			for errors.Is(err, ErrConflict) {
				token, _, err = c.hosts().Ensure(t.Context(), hostRequest())
			}
			if err != nil {
				t.Error(err)
				return
			}
			tokens[n] = token.Token.Reveal()
		})
	}
	group.Wait()
	for _, token := range tokens {
		if token != tokens[0] {
			t.Error("two tokens were given")
		}
	}
	if n := len(c.secrets(t)); n != 1 {
		t.Errorf("%d Secrets", n)
	}
}

func TestRevokeHostToken(t *testing.T) {
	t.Parallel()
	c := newCluster()
	token, _, err := c.hosts().Ensure(t.Context(), hostRequest())
	if err != nil {
		t.Fatal(err)
	}
	changed := c.secrets(t)[0]
	changed.Annotations = map[string]string{"a": "b"}
	if _, err := c.hand.Update(t.Context(), &changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.hosts().RevokeUnchanged(t.Context(), token); !errors.Is(err, ErrConflict) {
		t.Errorf("a changed token: %v", err)
	}
	if deleted, err := c.hosts().Revoke(t.Context(), token); err != nil || !deleted {
		t.Error(deleted, err)
	}
	if deleted, err := c.hosts().Revoke(t.Context(), token); err != nil || deleted {
		t.Error(deleted, err)
	}
}

// Whatever the API server does, an error is told and nothing secret is in it.
func TestHostTokenFaults(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for _, verb := range []string{"list", "create", "get", "update", "delete"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			request := hostRequest()
			switch verb {
			case "get", "update":
				if _, _, err := c.hosts().Ensure(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			case "delete":
				request.Settings.TTL = -time.Hour
				if _, _, err := c.hosts().Ensure(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			c.hook = func(_ context.Context, call apitest.Call) error {
				if call.Verb == verb {
					return away
				}
				return nil
			}
			if _, _, err := c.hosts().Ensure(t.Context(), request); !errors.Is(err, away) {
				t.Errorf("%v", err)
			}
		})
	}
}
