package bootstraptoken

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func (c *cluster) view() *apitest.View {
	return c.server.ViewSecrets(metav1.NamespaceSystem, corev1.SecretTypeBootstrapToken, Indexers())
}

func TestCacheKnowsWhatIsReissued(t *testing.T) {
	t.Parallel()
	const other instance.ID = "i-abcd1111"
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *cluster)
		want    bool
	}{
		"nothing there":   {func(*testing.T, *cluster) {}, false},
		"an ordinary one": {func(t *testing.T, c *cluster) { c.create(t, testRequest()) }, false},
		"reissued":        {func(t *testing.T, c *cluster) { c.create(t, reissueRequest()) }, true},
		"reissued, a second before its end": {func(t *testing.T, c *cluster) {
			c.create(t, reissueRequest())
			time.Sleep(time.Hour - time.Second)
		}, true},
		"reissued, at its end": {func(t *testing.T, c *cluster) { c.create(t, reissueRequest()); time.Sleep(time.Hour) }, false},
		"reissued, renewed, after its end": {func(t *testing.T, c *cluster) {
			claim := c.create(t, reissueRequest())
			time.Sleep(30 * time.Minute)
			if _, err := c.Renew(t.Context(), claim, 2*time.Hour); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Minute)
		}, false},
		"reissued, revoked": {func(t *testing.T, c *cluster) {
			if _, err := c.Revoke(t.Context(), c.create(t, reissueRequest())); err != nil {
				t.Fatal(err)
			}
		}, false},
		"reissued, revoked, an ordinary one again": {func(t *testing.T, c *cluster) {
			if _, err := c.Revoke(t.Context(), c.create(t, reissueRequest())); err != nil {
				t.Fatal(err)
			}
			c.create(t, testRequest())
		}, false},
		"another instance's": {func(t *testing.T, c *cluster) {
			r := reissueRequest()
			r.Instance.ID = other
			c.create(t, r)
		}, false},
		"until nonsense": {func(t *testing.T, c *cluster) {
			c.edit(t, c.create(t, reissueRequest()).name, func(s *corev1.Secret) { s.Annotations[reissueAnnotation] = "ever" })
		}, false},
		"label removed": {func(t *testing.T, c *cluster) {
			c.edit(t, c.create(t, reissueRequest()).name, func(s *corev1.Secret) { s.Labels = nil })
		}, false},
		"relabelled to another": {func(t *testing.T, c *cluster) {
			c.edit(t, c.create(t, reissueRequest()).name, func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(other) })
		}, false},
		"two of which one is": {func(t *testing.T, c *cluster) {
			c.create(t, testRequest())
			second := newSecretObject(metav1.NamespaceSystem, "zzzzzz", "kq4gihvszzgn1p0r", reissueRequest(), time.Now().Add(time.Hour))
			c.put(t, second)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				tokens := NewCache(c.view().Indexer())
				tc.prepare(t, c)
				if got := reissued(tokens, testInstance, time.Now()); got != tc.want {
					t.Errorf("reissued: %v", got)
				}
				// A replica that starts now answers the same.
				if got := reissued(NewCache(c.view().Indexer()), testInstance, time.Now()); got != tc.want {
					t.Errorf("reissued, after a start: %v", got)
				}
			})
		})
	}
}

func TestCacheMayBeBehind(t *testing.T) {
	t.Parallel()
	c := newCluster()
	view := c.view()
	tokens := NewCache(view.Indexer())
	view.Hold()
	claim := c.create(t, reissueRequest())
	if reissued(tokens, testInstance, time.Now()) {
		t.Error("it knows what it cannot know")
	}
	view.Release()
	view.Hold()
	if _, err := c.Revoke(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if !reissued(tokens, testInstance, time.Now()) {
		t.Error("it does not know what it was told")
	}
	view.Release()
	if reissued(tokens, testInstance, time.Now()) {
		t.Error("it did not catch up")
	}
}

func TestCacheOfOddThings(t *testing.T) {
	t.Parallel()
	if reissued(NewCache(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), testInstance, time.Now()) {
		t.Error("without its index")
	}
	index := cache.NewIndexer(func(any) (string, error) { return "key", nil }, Indexers())
	if err := index.Add("no object"); err != nil {
		t.Fatal(err)
	}
	if tokens := NewCache(index); reissued(tokens, testInstance, time.Now()) || reissued(tokens, "", time.Now()) {
		t.Error("a string is no token")
	}
}

// The informer holds the metadata only, and that is enough.
func TestCacheOverTheInformer(t *testing.T) {
	t.Parallel()
	full := newSecretObject(metav1.NamespaceSystem, "abcdef", "kq4gihvszzgn1p0r", reissueRequest(), time.Now().Add(time.Hour))
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: full.ObjectMeta}
	informer := NewInformer(fake.NewSimpleMetadataClient(scheme, object))
	tokens := NewCache(informer.GetIndexer())
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("not synced")
	}
	if !reissued(tokens, testInstance, time.Now()) || reissued(tokens, testInstance, time.Now().Add(2*time.Hour)) {
		t.Error("wrong")
	}
	if _, ok := informer.GetStore().List()[0].(*metav1.PartialObjectMetadata); !ok {
		t.Errorf("it holds a %T", informer.GetStore().List()[0])
	}
}

func reissued(c Cache, id instance.ID, now time.Time) bool {
	_, ok := c.Reissued(id, now)
	return ok
}
