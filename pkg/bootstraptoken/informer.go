package bootstraptoken

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// NewInformer returns an informer over the metadata of our token Secrets; the
// tokens themselves are not part of it. It must be run by the caller.
func NewInformer(client metadata.Interface) cache.SharedIndexInformer {
	ours := func(o *metav1.ListOptions) {
		o.LabelSelector = InstanceLabel
		o.FieldSelector = fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken)).String()
	}
	return metadatainformer.NewFilteredMetadataInformer(client,
		corev1.SchemeGroupVersion.WithResource("secrets"), metav1.NamespaceSystem, 0, cache.Indexers{}, ours).Informer()
}

// RegisterMetrics registers the number of tokens in an informer's store.
func RegisterMetrics(reg prometheus.Registerer, store cache.Store) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynk8s_bootstrap_tokens",
		Help: "Bootstrap tokens that this program made and that still exist.",
	}, func() float64 { return float64(len(store.ListKeys())) }))
}
