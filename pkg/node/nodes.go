// Package node finds, marks and deletes the Kubernetes Nodes of EC2 instances.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// InstanceLabel is the label that the join configuration gives to a Node, by
// which it is known as one of ours. Its value is the instance id.
const InstanceLabel = instance.Label

// Client is what Nodes needs of the API server. client-go's NodeInterface has
// it.
type Client interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Node is the Node of an instance.
type Node struct {
	Name       string
	InstanceID instance.ID
	// Ours reports whether a Node of the instance carries our label for it.
	Ours bool
	// ReadySince is when the Node became Ready; zero while it is not.
	ReadySince time.Time
	// Incarnation differs each time that a Node of the instance becomes Ready;
	// empty while none is.
	Incarnation string
	// Host is what the Node's label says of which host it is; empty without one.
	Host string

	uid types.UID // by Named only
}

// Ready reports whether the Node is Ready.
func (n Node) Ready() bool { return !n.ReadySince.IsZero() }

// Nodes finds Nodes by the instance id in their name or in their spec.providerID.
type Nodes struct {
	client Client
	index  cache.Indexer
	ready  chan instance.ID
}

// New returns the Nodes behind client. The index holds them, with Indexers; it
// is an informer's, and may be a moment behind.
func New(client Client, index cache.Indexer) *Nodes {
	return &Nodes{client: client, index: index, ready: make(chan instance.ID, 256)}
}

// Find returns the Node of the instance, by its name or its provider id, as the
// cache has it. Should there be several, one under an old name perhaps, it is a Ready one
// if any is, and ours if any is.
func (n *Nodes) Find(id instance.ID) (Node, bool) {
	return best(n.find(id), id)
}

// FindLive is Find with the Nodes read from the API server. One that is not in
// the cache yet is not found.
func (n *Nodes) FindLive(ctx context.Context, id instance.ID) (Node, bool, error) {
	var live []*corev1.Node
	for _, cached := range n.find(id) {
		read, err := n.client.Get(ctx, cached.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Node{}, false, fmt.Errorf("read node: %w", err)
		}
		if of, ok := instanceOf(read); ok && of == id {
			live = append(live, read)
		}
	}
	found, ok := best(live, id)
	return found, ok, nil
}

// best joins the Nodes of an instance into one.
func best(all []*corev1.Node, id instance.ID) (Node, bool) {
	if len(all) == 0 {
		return Node{}, false
	}
	best := nodeOf(all[0], id)
	for _, found := range all[1:] {
		other := nodeOf(found, id)
		ours, incarnation := best.Ours || other.Ours, best.Incarnation+other.Incarnation
		if other.Ready() && !best.Ready() {
			best = other
		}
		best.Ours, best.Incarnation = ours, incarnation
	}
	return best, true
}

// InstanceOf returns the instance whose Node has the name, as the cache has it,
// and false for a Node that is none of an instance. found is false while the
// cache does not hold the Node.
func (n *Nodes) InstanceOf(name string) (id instance.ID, inEC2, found bool) {
	held, found := n.named(name)
	if !found {
		return "", false, false
	}
	id, inEC2 = instanceOf(held)
	return id, inEC2, true
}

// Named returns the Node of that name, read from the API server. Its InstanceID
// is empty when it is none of an instance.
func (n *Nodes) Named(ctx context.Context, name string) (Node, bool, error) {
	read, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Node{}, false, nil
	}
	if err != nil {
		return Node{}, false, fmt.Errorf("read node: %w", err)
	}
	id, _ := instanceOf(read)
	named := nodeOf(read, id)
	named.uid = read.UID
	return named, true, nil
}

// DeleteNamed deletes a Node that Named returned, if it is still the same object.
// It reports whether it was this call that deleted it.
func (n *Nodes) DeleteNamed(ctx context.Context, found Node) (bool, error) {
	err := n.client.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.uid}})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete node: %w", err)
	}
	return true, nil
}

func (n *Nodes) named(name string) (*corev1.Node, bool) {
	object, found, err := n.index.GetByKey(name)
	held, ok := object.(*corev1.Node)
	return held, err == nil && found && ok
}

func (n *Nodes) find(id instance.ID) []*corev1.Node {
	objects, err := n.index.ByIndex(byInstance, string(id))
	if err != nil { // only when the index does not exist
		return nil
	}
	nodes := make([]*corev1.Node, 0, len(objects))
	for _, object := range objects {
		if found, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, found)
		}
	}
	// The index has no order, but answers must not differ from call to call.
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// All returns the instances that have a Node, ours or not, as the cache has it,
// in no order.
func (n *Nodes) All() []instance.ID {
	var ids []instance.ID
	for _, value := range n.index.ListIndexFuncValues(byInstance) {
		if len(n.find(instance.ID(value))) > 0 { // values of Nodes that are gone may stay
			ids = append(ids, instance.ID(value))
		}
	}
	return ids
}

// Ours returns the instances whose Nodes carry our label, as the cache has it,
// in no order.
func (n *Nodes) Ours() []instance.ID {
	var ids []instance.ID
	for _, value := range n.index.ListIndexFuncValues(byInstance) {
		id := instance.ID(value)
		if found, ok := n.Find(id); ok && found.Ours {
			ids = append(ids, id)
		}
	}
	return ids
}

// Delete deletes every Node of an instance, each only while it is the object
// that was read and the instance's. It reports whether one
// was deleted.
func (n *Nodes) Delete(ctx context.Context, id instance.ID) (bool, error) {
	deleted := false
	var errs []error
	for _, found := range n.find(id) {
		ok, err := n.delete(ctx, found.Name, id)
		deleted = deleted || ok
		errs = append(errs, err)
	}
	return deleted, errors.Join(errs...)
}

func (n *Nodes) delete(ctx context.Context, name string, id instance.ID) (bool, error) {
	live, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node: %w", err)
	}
	// The name may have gone to another machine since the cache saw it.
	if of, ok := instanceOf(live); !ok || of != id {
		return false, nil
	}
	err = n.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &live.UID}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete node: %w", err)
	}
	return true, nil
}

// BecameReady delivers the instances whose Nodes became Ready, those that were
// Ready when the informer started among them. A slow reader misses some.
func (n *Nodes) BecameReady() <-chan instance.ID { return n.ready }

// EventHandler must be added to the informer behind the index: it feeds
// BecameReady.
func (n *Nodes) EventHandler() cache.ResourceEventHandler {
	signal := func(object any) {
		found, ok := object.(*corev1.Node)
		if !ok || readySince(found).IsZero() {
			return
		}
		if id, inEC2 := instanceOf(found); inEC2 {
			select {
			case n.ready <- id:
			default: // the reconcile pass makes up for it
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: signal,
		UpdateFunc: func(before, after any) {
			if b, ok := before.(*corev1.Node); ok && !readySince(b).IsZero() {
				return
			}
			signal(after)
		},
	}
}
