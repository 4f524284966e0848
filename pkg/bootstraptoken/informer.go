package bootstraptoken

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// NewInformer returns an informer over the metadata of our token Secrets; the
// tokens themselves are not part of it. It must be run by the caller.
func NewInformer(client metadata.Interface) cache.SharedIndexInformer {
	return newInformer(client, InstanceLabel, Indexers())
}

// NewHostInformer returns an informer over the metadata of the token Secrets of
// hosts, as NewInformer does for those of instances.
func NewHostInformer(client metadata.Interface) cache.SharedIndexInformer {
	return newInformer(client, HostLabel, HostIndexers())
}

func newInformer(client metadata.Interface, label string, indexers cache.Indexers) cache.SharedIndexInformer {
	ours := func(o *metav1.ListOptions) {
		o.LabelSelector = label
		o.FieldSelector = fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken)).String()
	}
	return metadatainformer.NewFilteredMetadataInformer(client,
		corev1.SchemeGroupVersion.WithResource("secrets"), metav1.NamespaceSystem, 0, indexers, ours).Informer()
}

// The names of the indexes by instance id and by host.
const (
	byInstance = "instance"
	byHost     = "host"
)

// Indexers are the indexes that a Cache needs.
func Indexers() cache.Indexers { return cache.Indexers{byInstance: byLabel(InstanceLabel)} }

// HostIndexers are the indexes that HasHostToken needs.
func HostIndexers() cache.Indexers { return cache.Indexers{byHost: byLabel(HostLabel)} }

func byLabel(label string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		m, ok := object.(metav1.Object)
		if !ok {
			return nil, nil
		}
		return []string{m.GetLabels()[label]}, nil
	}
}

// HasHostToken reports whether the index of a host informer holds a token of the
// host. It may be a moment behind.
func HasHostToken(index cache.Indexer, host string) bool {
	keys, err := index.IndexKeys(byHost, host)
	return err == nil && len(keys) > 0
}

// Cache answers from an informer's index what needs no secret. It may be a
// moment behind.
type Cache struct{ index cache.Indexer }

// NewCache returns the Cache over an informer's index with Indexers.
func NewCache(index cache.Indexer) Cache { return Cache{index} }

// Reissued reports whether a token that an operator asked for is there for the
// instance and in force at time now, and which Ready Node there was then.
func (c Cache) Reissued(id instance.ID, now time.Time) (readyNode string, ok bool) {
	objects, err := c.index.ByIndex(byInstance, string(id))
	if err != nil { // only when the index does not exist
		return "", false
	}
	for _, object := range objects {
		m, isObject := object.(metav1.Object)
		if isObject && now.Before(parseTime(m.GetAnnotations()[reissueAnnotation])) {
			return m.GetAnnotations()[besideAnnotation], true
		}
	}
	return "", false
}

// RegisterMetrics registers the number of tokens in an informer's store.
func RegisterMetrics(reg prometheus.Registerer, store cache.Store) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynk8s_bootstrap_tokens",
		Help: "Bootstrap tokens that this program made and that still exist.",
	}, func() float64 { return float64(len(store.ListKeys())) }))
}
