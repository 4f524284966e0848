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

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// ErrNotFound says that the instance has no claim.
var ErrNotFound = errors.New("no bootstrap token of the instance")

// ErrConflict says that the claim was changed, replaced or removed by somebody
// else since it was read. Reading it again and deciding anew is the answer.
var ErrConflict = errors.New("the bootstrap token changed meanwhile")

// Secrets is what an Issuer needs of the API server: the Secrets of the
// namespace kube-system. client-go's SecretInterface has it.
type Secrets interface {
	Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Issuer makes, renews and revokes the tokens of instances. It keeps nothing in
// memory: every answer is a fresh, consistent read.
type Issuer struct {
	secrets Secrets
}

// NewIssuer returns an Issuer over the Secrets of kube-system.
func NewIssuer(secrets Secrets) *Issuer { return &Issuer{secrets: secrets} }

// Find returns the claim of an instance, or ErrNotFound. Should an instance
// have several, which only a collision of derived ids can bring about, it is
// the first of them by name, the same for every reader.
func (i *Issuer) Find(ctx context.Context, id instance.ID) (Claim, error) {
	claims, err := i.list(ctx, InstanceLabel+"="+string(id))
	if err != nil {
		return Claim{}, err
	}
	if len(claims) == 0 {
		return Claim{}, ErrNotFound
	}
	return claims[0], nil
}

// FindAll returns every claim of an instance, ordered by name; normally one or
// none. One whose label a hand removed is among them, its label put back.
func (i *Issuer) FindAll(ctx context.Context, id instance.ID) ([]Claim, error) {
	claims, err := i.list(ctx, InstanceLabel+"="+string(id))
	if err != nil || len(claims) > 0 {
		return claims, err
	}
	secret, err := i.secrets.Get(ctx, bootstraputil.BootstrapTokenSecretName(deriveID(id, 0)), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read bootstrap token: %w", err)
	}
	claim, err := i.adopt(ctx, secret, id)
	if errors.Is(err, errForeign) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Claim{claim}, nil
}

// ByTokenID returns the claim of the token with a public id, or ErrNotFound when
// there is no such token or none of ours has that id.
func (i *Issuer) ByTokenID(ctx context.Context, tokenID string) (Claim, error) {
	secret, err := i.secrets.Get(ctx, bootstraputil.BootstrapTokenSecretName(tokenID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Claim{}, ErrNotFound
	}
	if err != nil {
		return Claim{}, fmt.Errorf("read bootstrap token: %w", err)
	}
	claim, ok := claimOf(secret)
	if !ok || claim.Token.ID() != tokenID {
		return Claim{}, ErrNotFound
	}
	return claim, nil
}

// All returns the claims of all instances, ordered by name.
func (i *Issuer) All(ctx context.Context) ([]Claim, error) {
	return i.list(ctx, InstanceLabel)
}

func (i *Issuer) list(ctx context.Context, selector string) ([]Claim, error) {
	list, err := i.secrets.List(ctx, metav1.ListOptions{
		LabelSelector: selector,
		FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	claims := make([]Claim, 0, len(list.Items))
	for n := range list.Items {
		if claim, ok := claimOf(&list.Items[n]); ok {
			claims = append(claims, claim)
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.name, b.name) })
	return claims, nil
}

// Create makes the claim of an instance, or returns the one that is there
// already, made by another replica perhaps, with created false. The claim that
// is returned may name another key than the request.
func (i *Issuer) Create(ctx context.Context, r Request) (claim Claim, created bool, err error) {
	secret, err := newSecret()
	if err != nil {
		return Claim{}, false, err
	}
	for n := range maxDerivations {
		claim, created, err = i.createAt(ctx, deriveID(r.Instance.ID, n), secret, r)
		if !errors.Is(err, errForeign) {
			return claim, created, err
		}
	}
	return Claim{}, false, fmt.Errorf("create bootstrap token: %d derived ids are all in use by others", maxDerivations)
}

// errForeign says that the Secret of a derived id belongs to somebody else.
var errForeign = errors.New("token id in use by another")

// createAt creates the Secret of one token id, or reads whose it is.
func (i *Issuer) createAt(ctx context.Context, tokenID, secret string, r Request) (Claim, bool, error) {
	object := newSecretObject(metav1.NamespaceSystem, tokenID, secret, r, time.Now().Add(r.Settings.TTL))
	stored, err := i.secrets.Create(ctx, object, metav1.CreateOptions{})
	if err == nil {
		claim, _ := claimOf(stored)
		return claim, true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return Claim{}, false, fmt.Errorf("create bootstrap token: %w", err)
	}
	stored, err = i.secrets.Get(ctx, object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // it was there a moment ago
		return Claim{}, false, ErrConflict
	}
	if err != nil {
		return Claim{}, false, fmt.Errorf("read existing bootstrap token: %w", err)
	}
	claim, err := i.adopt(ctx, stored, r.Instance.ID)
	return claim, false, err
}

// adopt returns the claim in a Secret that has the name of one of ours, with
// its label put back should a hand have removed or emptied it.
func (i *Issuer) adopt(ctx context.Context, secret *corev1.Secret, id instance.ID) (Claim, error) {
	if claim, ok := claimOf(secret); ok && claim.InstanceID == id {
		return claim, nil
	}
	if secret.Labels[InstanceLabel] != "" || secret.Annotations[instanceAnnotation] != string(id) || secret.Type != corev1.SecretTypeBootstrapToken {
		return Claim{}, errForeign
	}
	metav1.SetMetaDataLabel(&secret.ObjectMeta, InstanceLabel, string(id))
	return i.update(ctx, secret)
}

// MoveTo makes the claim name another key. ErrConflict when the claim is not as
// it was read.
func (i *Issuer) MoveTo(ctx context.Context, claim Claim, keyName string) (Claim, error) {
	return i.change(ctx, claim, func(secret *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, keyAnnotation, keyName)
	})
}

// Renew lets the token live for ttl from now. The token itself stays, since the
// instance may have fetched it. ErrConflict when the claim is not as it was
// read.
func (i *Issuer) Renew(ctx context.Context, claim Claim, ttl time.Duration) (Claim, error) {
	return i.change(ctx, claim, func(secret *corev1.Secret) {
		secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = formatExpiration(time.Now().Add(ttl))
	})
}

// Describe adds to the claim what EC2 knows of the instance and the claim lacks.
// ErrConflict when the claim is not as it was read.
func (i *Issuer) Describe(ctx context.Context, claim Claim, inst instance.Instance) (Claim, error) {
	return i.change(ctx, claim, func(secret *corev1.Secret) {
		for annotation, value := range descriptionOf(inst) {
			if secret.Annotations[annotation] == "" {
				metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation, value)
			}
		}
	})
}

// change applies f to the Secret of a claim, if it is still the one that was
// read.
func (i *Issuer) change(ctx context.Context, claim Claim, f func(*corev1.Secret)) (Claim, error) {
	secret, err := i.secrets.Get(ctx, claim.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Claim{}, ErrConflict
	}
	if err != nil {
		return Claim{}, fmt.Errorf("read bootstrap token: %w", err)
	}
	if secret.UID != claim.uid || secret.ResourceVersion != claim.resourceVersion {
		return Claim{}, ErrConflict
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	f(secret)
	return i.update(ctx, secret)
}

// update writes a Secret by its resourceVersion.
func (i *Issuer) update(ctx context.Context, secret *corev1.Secret) (Claim, error) {
	stored, err := i.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return Claim{}, ErrConflict
	case err != nil:
		return Claim{}, fmt.Errorf("update bootstrap token: %w", err)
	}
	claim, _ := claimOf(stored)
	return claim, nil
}

// Current reports whether the claim is still there, the same object, and names
// the same key. It reads the API server.
func (i *Issuer) Current(ctx context.Context, claim Claim) (bool, error) {
	secret, err := i.secrets.Get(ctx, claim.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read bootstrap token: %w", err)
	}
	now, ok := claimOf(secret)
	return ok && now.uid == claim.uid && now.InstanceID == claim.InstanceID && now.KeyName == claim.KeyName, nil
}

// Revoke deletes the token of a claim. It reports whether it was this call that
// deleted it, and ErrConflict when another Secret has taken its name since.
func (i *Issuer) Revoke(ctx context.Context, claim Claim) (bool, error) {
	return remove(ctx, i.secrets, claim.name, &metav1.Preconditions{UID: &claim.uid})
}

// RevokeUnchanged deletes the token of a claim as Revoke does, but only while
// the claim is as it was read: else it returns ErrConflict.
func (i *Issuer) RevokeUnchanged(ctx context.Context, claim Claim) (bool, error) {
	return remove(ctx, i.secrets, claim.name, &metav1.Preconditions{UID: &claim.uid, ResourceVersion: &claim.resourceVersion})
}

// remove deletes a Secret if the preconditions hold.
func remove(ctx context.Context, secrets Secrets, name string, p *metav1.Preconditions) (bool, error) {
	err := secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: p})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		return false, ErrConflict
	case err != nil:
		return false, fmt.Errorf("delete bootstrap token: %w", err)
	}
	return true, nil
}
