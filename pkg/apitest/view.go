package apitest

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// change is what a write did. before is nil for a new object, after for a
// deleted one. Both are the Server's: to be cloned, not changed.
type change struct {
	at            address
	before, after object
}

// View is one replica's cache of some objects, as an informer keeps it. It
// follows the Server at once, until Hold; then changes queue up until Step or
// Release. It may be used by many goroutines.
type View struct {
	index   cache.Indexer
	handler cache.ResourceEventHandler
	shows   func(address, object) (any, bool)

	mu      sync.Mutex
	held    bool
	pending []change
}

// ViewSecrets returns a View of the metadata of a namespace's Secrets of one
// type, as PartialObjectMetadata.
func (s *Server) ViewSecrets(namespace string, secretType corev1.SecretType, indexers cache.Indexers) *View {
	return s.view(indexers, func(at address, o object) (any, bool) {
		secret, ok := o.(*corev1.Secret)
		if !ok || at.namespace != namespace || secret.Type != secretType {
			return nil, false
		}
		m := &metav1.PartialObjectMetadata{ObjectMeta: *secret.ObjectMeta.DeepCopy()}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		return m, true
	})
}

// ViewNodes returns a View of the Nodes.
func (s *Server) ViewNodes(indexers cache.Indexers) *View {
	return s.view(indexers, func(_ address, o object) (any, bool) {
		node, ok := o.(*corev1.Node)
		if !ok {
			return nil, false
		}
		return node.DeepCopy(), true
	})
}

func (s *Server) view(indexers cache.Indexers, shows func(address, object) (any, bool)) *View {
	v := &View{index: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers), shows: shows}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, o := range s.objects {
		v.announce(change{at: at, after: o})
	}
	s.views = append(s.views, v)
	return v
}

// Indexer is the index that the View keeps.
func (v *View) Indexer() cache.Indexer { return v.index }

// Handle calls the handler for every object there is, and for each change from
// then on, after the index has it. The handler must not call the Server.
func (v *View) Handle(handler cache.ResourceEventHandler) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handler = handler
	for _, o := range v.index.List() {
		handler.OnAdd(o, true)
	}
}

// Hold makes the View fall behind from now on.
func (v *View) Hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = true
}

// Step lets the View catch up by one change; false when there is none.
func (v *View) Step() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.pending) == 0 {
		return false
	}
	v.apply(v.pending[0])
	v.pending = v.pending[1:]
	return true
}

// Release lets the View catch up, and stay in step from then on.
func (v *View) Release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = false
	for _, c := range v.pending {
		v.apply(c)
	}
	v.pending = nil
}

func (v *View) announce(c change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held {
		v.pending = append(v.pending, c)
		return
	}
	v.apply(c)
}

// apply brings one change into the index and tells the handler. The index's own
// errors come from the key function, which cannot fail for API objects.
func (v *View) apply(c change) {
	var before, after any
	var was, is bool
	if c.before != nil {
		before, was = v.shows(c.at, c.before)
	}
	if c.after != nil {
		after, is = v.shows(c.at, c.after)
	}
	switch {
	case is:
		_ = v.index.Update(after)
	case was:
		_ = v.index.Delete(before)
	}
	if v.handler == nil {
		return
	}
	switch {
	case was && is:
		v.handler.OnUpdate(before, after)
	case is:
		v.handler.OnAdd(after, false)
	case was:
		v.handler.OnDelete(before)
	}
}
