package apitest

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// errNoName is client-go's refusal to ask for nothing.
var errNoName = errors.New("resource name may not be empty")

// SecretClient is the Secrets of one namespace. It has the methods of
// client-go's SecretInterface that this program uses.
type SecretClient struct {
	client    *Client
	namespace string
}

// Secrets returns the Secrets of a namespace.
func (c *Client) Secrets(namespace string) *SecretClient { return &SecretClient{c, namespace} }

func (s *SecretClient) at(name string) address { return address{Secrets, s.namespace, name} }

func (s *SecretClient) call(verb, name string) Call { return Call{verb, Secrets, s.namespace, name} }

// Create stores a Secret if there is none of its name.
func (s *SecretClient) Create(ctx context.Context, secret *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return do(ctx, s.client, s.call("create", secret.Name), func() (*corev1.Secret, error) {
		if len(secret.StringData) > 0 {
			return nil, apierrors.NewBadRequest("apitest: stringData is not supported")
		}
		return as[*corev1.Secret](s.client.server.create(s.at(secret.Name), secret))
	})
}

// Update replaces a Secret, by its resource version if it has one.
func (s *SecretClient) Update(ctx context.Context, secret *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	if secret.Name == "" {
		return nil, errNoName
	}
	return do(ctx, s.client, s.call("update", secret.Name), func() (*corev1.Secret, error) {
		return as[*corev1.Secret](s.client.server.update(s.at(secret.Name), secret))
	})
}

// Get reads a Secret.
func (s *SecretClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	if name == "" {
		return nil, errNoName
	}
	return do(ctx, s.client, s.call("get", name), func() (*corev1.Secret, error) {
		return as[*corev1.Secret](s.client.server.get(s.at(name)))
	})
}

// List reads the Secrets that the selectors match, ordered by name.
func (s *SecretClient) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	return do(ctx, s.client, s.call("list", opts.LabelSelector), func() (*corev1.SecretList, error) {
		byLabel, err := labels.Parse(opts.LabelSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		byField, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		list := &corev1.SecretList{}
		for _, found := range s.client.server.list(func(at address, o object) bool {
			secret, ok := o.(*corev1.Secret)
			return ok && at.namespace == s.namespace && byLabel.Matches(labels.Set(secret.Labels)) &&
				byField.Matches(fields.Set{"type": string(secret.Type), "metadata.name": secret.Name})
		}) {
			list.Items = append(list.Items, *found.(*corev1.Secret))
		}
		slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
		return list, nil
	})
}

// Delete removes a Secret if the preconditions hold.
func (s *SecretClient) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := do(ctx, s.client, s.call("delete", name), func() (struct{}, error) {
		return struct{}{}, s.client.server.delete(s.at(name), opts.Preconditions)
	})
	return err
}

// as gives an object its type back.
func as[T object](o object, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return o.(T), nil
}
