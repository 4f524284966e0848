package apitest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Resources that a Server holds.
const (
	Secrets = "secrets"
	Nodes   = "nodes"
)

// object is a Secret or a Node.
type object interface {
	metav1.Object
	runtime.Object
}

type address struct {
	resource, namespace, name string
}

// Server holds the objects. It may be used by many goroutines.
type Server struct {
	mu      sync.Mutex
	objects map[address]object
	version int64
	uids    int64
	views   []*View
}

// NewServer returns a Server without objects.
func NewServer() *Server { return &Server{objects: map[address]object{}} }

func resource(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }

func (s *Server) get(at address) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, found := s.objects[at]
	if !found {
		return nil, apierrors.NewNotFound(resource(at.resource), at.name)
	}
	return clone(stored), nil
}

func (s *Server) list(wanted func(address, object) bool) []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []object
	for at, stored := range s.objects {
		if wanted(at, stored) {
			found = append(found, clone(stored))
		}
	}
	return found
}

func (s *Server) create(at address, given object) (object, error) {
	if given.GetGenerateName() != "" || at.name == "" {
		return nil, apierrors.NewBadRequest("apitest: a name is needed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[at]; taken {
		return nil, apierrors.NewAlreadyExists(resource(at.resource), at.name)
	}
	if given.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	created := clone(given)
	s.uids++
	created.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.uids)))
	created.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	created.SetNamespace(at.namespace)
	s.put(at, created)
	return clone(created), nil
}

func (s *Server) update(at address, given object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, found := s.objects[at]
	if !found {
		return nil, apierrors.NewNotFound(resource(at.resource), at.name)
	}
	if uid := given.GetUID(); uid != "" && uid != stored.GetUID() {
		return nil, conflict(at, "Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, stored.GetUID())
	}
	// As with the real one, an update without a version is unconditional.
	if v := given.GetResourceVersion(); v != "" && v != stored.GetResourceVersion() {
		return nil, conflict(at, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if secret, ok := stored.(*corev1.Secret); ok && secret.Type != given.(*corev1.Secret).Type {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, at.name,
			field.ErrorList{field.Invalid(field.NewPath("type"), given.(*corev1.Secret).Type, "field is immutable")})
	}
	updated := clone(given)
	updated.SetUID(stored.GetUID())
	updated.SetCreationTimestamp(stored.GetCreationTimestamp())
	updated.SetNamespace(at.namespace)
	updated.SetResourceVersion(stored.GetResourceVersion())
	if apiequality.Semantic.DeepEqual(updated, stored) {
		return updated, nil
	}
	s.put(at, updated)
	return clone(updated), nil
}

func (s *Server) delete(at address, p *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, found := s.objects[at]
	if !found {
		return apierrors.NewNotFound(resource(at.resource), at.name)
	}
	if p != nil && p.UID != nil && *p.UID != stored.GetUID() {
		return conflict(at, "Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, stored.GetUID())
	}
	if p != nil && p.ResourceVersion != nil && *p.ResourceVersion != stored.GetResourceVersion() {
		return conflict(at, "Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			*p.ResourceVersion, stored.GetResourceVersion())
	}
	delete(s.objects, at)
	s.version++
	s.announce(change{at: at, before: stored})
	return nil
}

// put stores an object under a new resource version. The lock is held.
func (s *Server) put(at address, o object) {
	before := s.objects[at]
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.objects[at] = o
	s.announce(change{at: at, before: before, after: o})
}

// announce tells the views of a change. The lock is held, so that all of them
// see changes in the order of the writes.
func (s *Server) announce(c change) {
	for _, v := range s.views {
		v.announce(c)
	}
}

func conflict(at address, format string, args ...any) error {
	return apierrors.NewConflict(resource(at.resource), at.name, fmt.Errorf(format, args...))
}

func clone(o object) object { return o.DeepCopyObject().(object) }
