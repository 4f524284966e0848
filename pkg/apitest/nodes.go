package apitest

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// NodeClient is the cluster's Nodes. It has the methods of client-go's
// NodeInterface that this program and its tests use.
type NodeClient struct {
	client *Client
}

// Nodes returns the cluster's Nodes.
func (c *Client) Nodes() *NodeClient { return &NodeClient{c} }

func nodeAt(name string) address { return address{resource: Nodes, name: name} }

func nodeCall(verb, name string) Call { return Call{Verb: verb, Resource: Nodes, Name: name} }

// Create stores a Node if there is none of its name.
func (n *NodeClient) Create(ctx context.Context, node *corev1.Node, _ metav1.CreateOptions) (*corev1.Node, error) {
	return do(ctx, n.client, nodeCall("create", node.Name), func() (*corev1.Node, error) {
		return as[*corev1.Node](n.client.server.create(nodeAt(node.Name), node))
	})
}

// Update replaces a Node, its status too, by its resource version if it has one.
func (n *NodeClient) Update(ctx context.Context, node *corev1.Node, _ metav1.UpdateOptions) (*corev1.Node, error) {
	return do(ctx, n.client, nodeCall("update", node.Name), func() (*corev1.Node, error) {
		return as[*corev1.Node](n.client.server.update(nodeAt(node.Name), node))
	})
}

// Get reads a Node.
func (n *NodeClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Node, error) {
	return do(ctx, n.client, nodeCall("get", name), func() (*corev1.Node, error) {
		return as[*corev1.Node](n.client.server.get(nodeAt(name)))
	})
}

// Patch applies a strategic merge patch, by its resource version if it has one.
func (n *NodeClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Node, error) {
	return do(ctx, n.client, nodeCall("patch", name), func() (*corev1.Node, error) {
		before, err := as[*corev1.Node](n.client.server.get(nodeAt(name)))
		if err != nil {
			return nil, err
		}
		original, err := json.Marshal(before)
		if err != nil {
			return nil, err
		}
		patched, err := strategicpatch.StrategicMergePatch(original, data, corev1.Node{})
		if err != nil {
			return nil, err
		}
		after := new(corev1.Node)
		if err := json.Unmarshal(patched, after); err != nil {
			return nil, err
		}
		return as[*corev1.Node](n.client.server.update(nodeAt(name), after))
	})
}

// Delete removes a Node if the preconditions hold.
func (n *NodeClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := do(ctx, n.client, nodeCall("delete", name), func() (struct{}, error) {
		return struct{}{}, n.client.server.delete(nodeAt(name), opts.Preconditions)
	})
	return err
}
