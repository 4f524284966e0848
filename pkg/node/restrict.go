package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// Restrictions are labels and taints that a Node is to have and that its kubelet
// may not be left to choose. Empty means none.
type Restrictions struct {
	Labels map[string]string
	Taints []corev1.Taint
}

// Restrict gives the instance's Node the labels and taints that it lacks, and
// leaves its others alone. It reports whether it had to. A Node that has all of
// them in the cache costs no call, and one that is another machine's by now gets
// nothing.
func (n *Nodes) Restrict(ctx context.Context, id instance.ID, name string, r Restrictions) (bool, error) {
	if cached, found := n.named(name); found && r.metBy(cached) {
		return false, nil
	}
	changed := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		changed, err = n.restrict(ctx, id, name, r)
		return err
	})
	return changed, err
}

func (n *Nodes) restrict(ctx context.Context, id instance.ID, name string, r Restrictions) (bool, error) {
	live, err := n.client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node: %w", err)
	}
	if of, inEC2 := instanceOf(live); !inEC2 || of != id || r.metBy(live) {
		return false, nil
	}
	patch, err := r.patch(live)
	if err != nil {
		return false, err
	}
	// Not Update: what this program's version of the type does not know would be
	// lost.
	_, err = n.client.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("label node: %w", err)
	}
	return true, nil
}

func (r Restrictions) metBy(n *corev1.Node) bool {
	for key, value := range r.Labels {
		if has, ok := n.Labels[key]; !ok || has != value {
			return false
		}
	}
	return len(r.lacking(n)) == 0
}

// lacking returns the taints that the Node does not have with this value.
func (r Restrictions) lacking(n *corev1.Node) []corev1.Taint {
	var lacking []corev1.Taint
	for _, taint := range r.Taints {
		if !slices.ContainsFunc(n.Spec.Taints, func(has corev1.Taint) bool {
			return has.MatchTaint(&taint) && has.Value == taint.Value
		}) {
			lacking = append(lacking, taint)
		}
	}
	return lacking
}

// patch holds the whole list of taints, which has no merge of its own, so it
// applies only to the Node as it was read.
func (r Restrictions) patch(n *corev1.Node) ([]byte, error) {
	metadata := map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion}
	if len(r.Labels) > 0 { // null would take all labels away
		metadata["labels"] = r.Labels
	}
	patch := map[string]any{"metadata": metadata}
	if lacking := r.lacking(n); len(lacking) > 0 {
		kept := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(has corev1.Taint) bool {
			return slices.ContainsFunc(lacking, func(t corev1.Taint) bool { return has.MatchTaint(&t) })
		})
		patch["spec"] = map[string]any{"taints": append(kept, lacking...)}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("label node: %w", err)
	}
	return data, nil
}
