package node

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// byInstance is the name of the index by instance id.
const byInstance = "instance"

// NewInformer returns an informer over the cluster's Nodes that keeps no more of
// each than this package reads. It must be run by the caller.
func NewInformer(client kubernetes.Interface) (cache.SharedIndexInformer, error) {
	informer := coreinformers.NewNodeInformer(client, 0, Indexers())
	return informer, informer.SetTransform(trim)
}

// Indexers are the indexes that Nodes needs.
func Indexers() cache.Indexers {
	return cache.Indexers{
		byInstance: func(object any) ([]string, error) {
			n, ok := object.(*corev1.Node)
			if !ok {
				return nil, nil
			}
			if id, inEC2 := instanceOf(n); inEC2 {
				return []string{string(id)}, nil
			}
			return nil, nil
		},
	}
}

// instanceOf returns the instance whose Node it is. A name that is an instance id
// says so by itself: the kubelet chooses the provider id, and a compromised one
// may choose another's or leave it out, but its certificate binds the name. Any
// other Node is known by its provider id.
func instanceOf(n *corev1.Node) (instance.ID, bool) {
	elsewhere := n.Spec.ProviderID != "" && !strings.HasPrefix(n.Spec.ProviderID, "aws:")
	if name, err := instance.ParseID(n.Name); err == nil && !elsewhere {
		return name, true
	}
	return instance.IDFromProviderID(n.Spec.ProviderID)
}

// trim drops what this package does not read: a Node's images and the like take
// kilobytes each.
func trim(object any) (any, error) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	slim := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Spec:       corev1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{c}
		}
	}
	return slim, nil
}

func nodeOf(n *corev1.Node, id instance.ID) Node {
	return Node{
		Name:        n.Name,
		InstanceID:  id,
		Ours:        n.Labels[InstanceLabel] == string(id),
		ReadySince:  readySince(n),
		Incarnation: incarnation(n),
		Host:        n.Labels[instance.HostLabel],
	}
}

func incarnation(n *corev1.Node) string {
	since := readySince(n)
	if since.IsZero() {
		return ""
	}
	return string(n.UID) + "@" + since.UTC().Format(time.RFC3339) + " "
}

func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
