package bootstraptoken

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
	"k8s.io/apimachinery/pkg/fields"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// hostAttempts bounds how often a changing token is read again.
const hostAttempts = 5

// Ensured tells how a host came to its token.
type Ensured string

// The ways to a token.
const (
	Made    Ensured = "made"    // there was none, or one that was dead
	Renewed Ensured = "renewed" // a live one, which now lives longer
	Kept    Ensured = "kept"    // a live one, which lives longer than was asked for
)

// HostIssuer makes, finds and revokes the tokens of hosts. It keeps nothing in
// memory: every answer is a fresh, consistent read.
type HostIssuer struct {
	secrets Secrets
}

// NewHostIssuer returns a HostIssuer over the Secrets of kube-system.
func NewHostIssuer(secrets Secrets) *HostIssuer { return &HostIssuer{secrets: secrets} }

// Ensure returns a token of the host that lives for at least the settings' TTL.
// A live one stays as it is, since it may have been handed out, and only lives
// longer; a dead one is replaced, so that what was written with it is worth
// nothing again. Two that call it at the same time get one token.
func (i *HostIssuer) Ensure(ctx context.Context, r HostRequest) (HostToken, Ensured, error) {
	for range hostAttempts {
		token, how, err := i.ensure(ctx, r)
		if !errors.Is(err, ErrConflict) {
			return token, how, err
		}
	}
	return HostToken{}, "", ErrConflict
}

func (i *HostIssuer) ensure(ctx context.Context, r HostRequest) (HostToken, Ensured, error) {
	found, err := i.FindAll(ctx, r.Name)
	if err != nil {
		return HostToken{}, "", err
	}
	for _, token := range found {
		if token.usable(time.Now()) {
			return i.renew(ctx, token, r)
		}
		if _, err := i.RevokeUnchanged(ctx, token); err != nil {
			return HostToken{}, "", err
		}
	}
	return i.create(ctx, r)
}

// create makes a token under the first derived id that is not another's.
func (i *HostIssuer) create(ctx context.Context, r HostRequest) (HostToken, Ensured, error) {
	secret, err := newSecret()
	if err != nil {
		return HostToken{}, "", err
	}
	for n := range maxDerivations {
		object := hostSecretObject(deriveFrom(HostLabel+"="+r.Name, n), secret, r, time.Now().Add(r.Settings.TTL))
		stored, err := i.secrets.Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			token, _ := hostTokenOf(stored)
			return token, Made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return HostToken{}, "", fmt.Errorf("create bootstrap token: %w", err)
		}
		if stored, err = i.secrets.Get(ctx, object.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return HostToken{}, "", ErrConflict
		} else if err != nil {
			return HostToken{}, "", fmt.Errorf("read existing bootstrap token: %w", err)
		}
		if token, ok := hostTokenOf(stored); ok && token.Host == r.Name {
			return HostToken{}, "", ErrConflict // another was faster; its token is the one
		}
	}
	return HostToken{}, "", fmt.Errorf("create bootstrap token: %d derived ids are all in use by others", maxDerivations)
}

// renew brings a live token up to what is asked for now.
func (i *HostIssuer) renew(ctx context.Context, token HostToken, r HostRequest) (HostToken, Ensured, error) {
	secret, err := i.secrets.Get(ctx, token.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return HostToken{}, "", ErrConflict
	}
	if err != nil {
		return HostToken{}, "", fmt.Errorf("read bootstrap token: %w", err)
	}
	if secret.UID != token.uid || secret.ResourceVersion != token.resourceVersion {
		return HostToken{}, "", ErrConflict
	}
	how, expires := Renewed, time.Now().Add(r.Settings.TTL)
	if token.Expires.After(expires) {
		how, expires = Kept, token.Expires
	}
	settle(secret, r, expires)
	stored, err := i.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return HostToken{}, "", ErrConflict
	case err != nil:
		return HostToken{}, "", fmt.Errorf("update bootstrap token: %w", err)
	}
	renewed, _ := hostTokenOf(stored)
	return renewed, how, nil
}

// FindAll returns every token of a host, ordered by name; normally one or none.
func (i *HostIssuer) FindAll(ctx context.Context, host string) ([]HostToken, error) {
	return i.list(ctx, HostLabel+"="+host)
}

// All returns the tokens of all hosts, ordered by host.
func (i *HostIssuer) All(ctx context.Context) ([]HostToken, error) { return i.list(ctx, HostLabel) }

func (i *HostIssuer) list(ctx context.Context, selector string) ([]HostToken, error) {
	list, err := i.secrets.List(ctx, metav1.ListOptions{
		LabelSelector: selector,
		FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	tokens := make([]HostToken, 0, len(list.Items))
	for n := range list.Items {
		if token, ok := hostTokenOf(&list.Items[n]); ok {
			tokens = append(tokens, token)
		}
	}
	slices.SortFunc(tokens, func(a, b HostToken) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.name, b.name))
	})
	return tokens, nil
}

// ByTokenID returns the host's token with a public id, or ErrNotFound when there
// is no such token or none of a host has that id.
func (i *HostIssuer) ByTokenID(ctx context.Context, tokenID string) (HostToken, error) {
	secret, err := i.secrets.Get(ctx, bootstraputil.BootstrapTokenSecretName(tokenID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return HostToken{}, ErrNotFound
	}
	if err != nil {
		return HostToken{}, fmt.Errorf("read bootstrap token: %w", err)
	}
	token, ok := hostTokenOf(secret)
	if !ok || string(secret.Data[bootstrapapi.BootstrapTokenIDKey]) != tokenID {
		return HostToken{}, ErrNotFound
	}
	return token, nil
}

// Revoke deletes the token, renewed meanwhile or not. It reports whether it was
// this call that deleted it, and ErrConflict when another Secret has taken its
// name since.
func (i *HostIssuer) Revoke(ctx context.Context, token HostToken) (bool, error) {
	return remove(ctx, i.secrets, token.name, &metav1.Preconditions{UID: &token.uid})
}

// RevokeUnchanged deletes the token as Revoke does, but only while it is as it
// was read: else it returns ErrConflict.
func (i *HostIssuer) RevokeUnchanged(ctx context.Context, token HostToken) (bool, error) {
	return remove(ctx, i.secrets, token.name,
		&metav1.Preconditions{UID: &token.uid, ResourceVersion: &token.resourceVersion})
}
