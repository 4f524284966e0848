package wireguardkey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// attempts bounds how often one update is tried again after a conflict.
const attempts = 4

// Held returns the keys whose label names the instance, ordered by name. It
// reads the API server.
func (p *Pool) Held(ctx context.Context, id instance.ID) ([]Key, error) {
	list, err := p.secrets.List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{InstanceLabel: string(id)}.String(),
		FieldSelector: fields.OneTermEqualSelector("type", string(SecretType)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list WireGuard keys: %w", err)
	}
	keys := make([]Key, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Type == SecretType && heldBy(&list.Items[i], id) {
			keys = append(keys, keyOf(&list.Items[i]))
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.Name(), b.Name()) })
	return keys, nil
}

// Get reads one key from the API server. ErrUnusable when there is none of that
// name.
func (p *Pool) Get(ctx context.Context, name string) (Key, error) {
	if name == "" { // client-go would not even ask
		return Key{}, fmt.Errorf("%w: it has no name", ErrUnusable)
	}
	secret, err := p.secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Key{}, fmt.Errorf("%w: Secret %q does not exist", ErrUnusable, name)
	}
	if err != nil {
		return Key{}, fmt.Errorf("read WireGuard key: %w", err)
	}
	return keyOf(secret), nil
}

// Choose returns a free key for the instance, read from the API server a moment
// ago, or ErrExhausted. A selector narrows the pool; nil does not. Names in
// except are left out.
func (p *Pool) Choose(ctx context.Context, id instance.ID, selector labels.Selector, except map[string]bool) (Key, error) {
	tried := make(map[string]bool, len(except))
	for name := range except {
		tried[name] = true
	}
	for {
		name, found := p.best(id, selector, tried)
		if !found {
			p.reportExhausted(ctx, selector)
			return Key{}, ErrExhausted
		}
		tried[name] = true
		key, err := p.Get(ctx, name)
		if err == nil {
			err = p.check(key.secret(), id)
		}
		switch {
		case err == nil:
			return key, nil
		case errors.Is(err, ErrTaken): // the cache was behind
		case errors.Is(err, ErrUnusable):
			p.reportUnusable(ctx, name, key.version(), err)
		default:
			return Key{}, err
		}
	}
}

// best returns the free key that the instance should try first, by the cache.
func (p *Pool) best(id instance.ID, selector labels.Selector, tried map[string]bool) (string, bool) {
	var name, freeSince string
	var lowest uint64
	for _, m := range p.lookup(byFree, freeValue) {
		if tried[m.GetName()] || (selector != nil && !selector.Matches(labels.Set(m.GetLabels()))) {
			continue
		}
		r, since := rank(id, m.GetName()), m.GetAnnotations()[releasedAt]
		// Among equals the one that has been free longest, so that the VPN server
		// forgets its last user first.
		if name == "" || cmp.Or(cmp.Compare(r, lowest), cmp.Compare(since, freeSince)) < 0 {
			name, lowest, freeSince = m.GetName(), r, since
		}
	}
	return name, name != ""
}

// check says whether the key may be given to the instance: nil, ErrTaken or
// ErrUnusable with the reason.
func (p *Pool) check(secret *corev1.Secret, id instance.ID) error {
	holder, pooled := secret.Labels[InstanceLabel]
	wasHolder, isLost := lost(secret)
	marked := secret.Annotations[handedOutTo]
	switch {
	case secret.Type != SecretType:
		return fmt.Errorf("%w: its type is %q, want %q", ErrUnusable, secret.Type, SecretType)
	case isLost && wasHolder != id, !isLost && holder != "" && holder != string(id), marked != "" && marked != string(id):
		return ErrTaken
	case !pooled && !isLost:
		return fmt.Errorf("%w: it has no label %s, so it is not in the pool", ErrUnusable, InstanceLabel)
	case len(secret.Data[ConfigKey]) == 0:
		return fmt.Errorf("%w: it has no %s", ErrUnusable, ConfigKey)
	}
	if err := p.usable(secret.Data[ConfigKey]); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return nil
}

// Allocate labels the key with the instance. A key that the instance holds
// already is fine. ErrTaken when another holds it, ErrUnusable when it cannot
// be used.
func (p *Pool) Allocate(ctx context.Context, key Key, id instance.ID) error {
	allocated, err := p.change(ctx, key, func(secret *corev1.Secret) (bool, error) {
		if err := p.check(secret, id); err != nil {
			return false, err
		}
		if heldBy(secret, id) && secret.Annotations[allocatedTo] == string(id) {
			return false, nil
		}
		metav1.SetMetaDataLabel(&secret.ObjectMeta, InstanceLabel, string(id))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, allocatedTo, string(id))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, allocatedAt, now())
		delete(secret.Annotations, releasedAt)
		return true, nil
	})
	if err != nil || !allocated {
		return err
	}
	p.log.InfoContext(ctx, "wireguard key allocated", "key", key.Name(), "instance", id)
	p.events.Eventf(key.secret(), corev1.EventTypeNormal, "WireGuardKeyAllocated", "Allocated to EC2 instance %s", id)
	return nil
}

// change applies f to the key, reading it again after each conflict, until f
// has nothing to write or the write succeeded. It reports whether it wrote.
func (p *Pool) change(ctx context.Context, key Key, f func(*corev1.Secret) (bool, error)) (bool, error) {
	secret := key.secret()
	for range attempts {
		secret = secret.DeepCopy()
		write, err := f(secret)
		if err != nil || !write {
			return false, err
		}
		_, err = p.secrets.Update(ctx, secret, metav1.UpdateOptions{})
		if err == nil {
			return true, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("update WireGuard key: %w", err)
		}
		fresh, err := p.Get(ctx, key.Name())
		if err != nil {
			return false, err
		}
		secret = fresh.secret()
	}
	return false, fmt.Errorf("update WireGuard key %q: changed by others %d times in a row", key.Name(), attempts)
}
