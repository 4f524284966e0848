package wireguardkey

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Names of the indexes over the pool's metadata.
const (
	byFree   = "free"   // one value, freeValue
	byHolder = "holder" // the instance that the label names
	byLost   = "lost"   // the instance that only annotations name

	freeValue = "yes"
)

// NewInformer returns an informer over the metadata of the key Secrets in a
// namespace. Private keys are not part of it. It must be run by the caller.
func NewInformer(client metadata.Interface, namespace string) cache.SharedIndexInformer {
	ofOurType := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("type", string(SecretType)).String()
	}
	return metadatainformer.NewFilteredMetadataInformer(client,
		corev1.SchemeGroupVersion.WithResource("secrets"), namespace, 0, Indexers(), ofOurType).Informer()
}

// Indexers are the indexes that a Pool needs over the metadata of key Secrets.
func Indexers() cache.Indexers {
	return cache.Indexers{
		byFree: func(object any) ([]string, error) {
			if m, ok := object.(metav1.Object); ok && free(m) {
				return []string{freeValue}, nil
			}
			return nil, nil
		},
		byHolder: func(object any) ([]string, error) {
			if m, ok := object.(metav1.Object); ok {
				if id := m.GetLabels()[InstanceLabel]; id != "" && heldBy(m, instance.ID(id)) {
					return []string{id}, nil
				}
			}
			return nil, nil
		},
		byLost: func(object any) ([]string, error) {
			if m, ok := object.(metav1.Object); ok {
				if id, isLost := lost(m); isLost {
					return []string{string(id)}, nil
				}
			}
			return nil, nil
		},
	}
}

// HeldNames returns the names of the keys whose label names the instance, as
// the cache has it: a hint, perhaps a moment old.
func (p *Pool) HeldNames(id instance.ID) []string { return p.names(byHolder, string(id)) }

// LostNames returns the names of the keys that were allocated to the instance
// and whose label a hand has emptied or removed, as the cache has it.
func (p *Pool) LostNames(id instance.ID) []string { return p.names(byLost, string(id)) }

// Joined reports whether a key of the instance says that its Node was Ready
// once, as the cache has it.
func (p *Pool) Joined(id instance.ID) bool {
	return slices.ContainsFunc(append(p.lookup(byHolder, string(id)), p.lookup(byLost, string(id))...), func(m metav1.Object) bool {
		return m.GetAnnotations()[joinedAt] != ""
	})
}

// Holders returns the instances that the labels and annotations of the pool
// name, as the cache has it, in no order.
func (p *Pool) Holders() []instance.ID {
	var ids []instance.ID
	for _, index := range []string{byHolder, byLost} {
		for _, value := range p.index.ListIndexFuncValues(index) {
			if id, err := instance.ParseID(value); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (p *Pool) names(index, value string) []string {
	var names []string
	for _, m := range p.lookup(index, value) {
		names = append(names, m.GetName())
	}
	return names
}

func (p *Pool) lookup(index, value string) []metav1.Object {
	objects, err := p.index.ByIndex(index, value)
	if err != nil { // only when the index does not exist
		p.log.ErrorContext(context.Background(), "key index is missing", "index", index, "err", err)
		return nil
	}
	metas := make([]metav1.Object, 0, len(objects))
	for _, object := range objects {
		if m, ok := object.(metav1.Object); ok {
			metas = append(metas, m)
		}
	}
	return metas
}

// rank orders free keys for an instance, differently for each instance, so that
// instances which arrive together rarely want the same key. A weaker hash will
// not do: the names of keys differ in their last digits only.
func rank(id instance.ID, keyName string) uint64 {
	sum := sha256.Sum256([]byte(string(id) + "/" + keyName))
	return binary.BigEndian.Uint64(sum[:])
}
