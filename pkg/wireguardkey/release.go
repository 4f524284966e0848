package wireguardkey

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// HandOut marks the key as handed out to the instance that holds it and returns
// the WireGuard configuration. A key that was changed since it was read is not
// handed out.
func (p *Pool) HandOut(ctx context.Context, key Key, id instance.ID) ([]byte, error) {
	secret := key.secret()
	if !heldBy(secret, id) {
		return nil, ErrTaken
	}
	if err := p.check(secret, id); err != nil {
		return nil, err
	}
	if key.Marked(id) {
		return secret.Data[ConfigKey], nil
	}
	secret = secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, handedOutTo, string(id))
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, handedOutAt, now())
	stored, err := p.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("mark WireGuard key as handed out: %w", err)
	}
	return stored.Data[ConfigKey], nil
}

// MarkJoined remembers on the key that the Node of the instance that holds it was
// Ready. It lasts until the key is released.
func (p *Pool) MarkJoined(ctx context.Context, key Key, id instance.ID) error {
	_, err := p.change(ctx, key, func(secret *corev1.Secret) (bool, error) {
		if !heldBy(secret, id) || keyOf(secret).Joined() {
			return false, nil
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, joinedAt, now())
		return true, nil
	})
	return err
}

// Release gives the key back to the pool, marked or not, if it is the
// instance's; it reports whether it did. Only for an instance that is dead. A
// key without the pool's label loses what names the instance and stays out of
// the pool.
func (p *Pool) Release(ctx context.Context, key Key, id instance.ID) (bool, error) {
	released, err := p.change(ctx, key, func(secret *corev1.Secret) (bool, error) {
		if was, isLost := lost(secret); !heldBy(secret, id) && (!isLost || was != id) {
			return false, nil
		}
		clearHolder(secret)
		return true, nil
	})
	return p.reportRelease(ctx, key, id, released, err)
}

// TakeBack gives the key back to the pool if the instance holds it and it was
// not handed out; it reports whether it did.
func (p *Pool) TakeBack(ctx context.Context, name string, id instance.ID) (bool, error) {
	key, err := p.Get(ctx, name)
	if errors.Is(err, ErrUnusable) { // the Secret is gone
		return false, nil
	}
	if err != nil {
		return false, err
	}
	released, err := p.change(ctx, key, func(secret *corev1.Secret) (bool, error) {
		if !heldBy(secret, id) || keyOf(secret).Marked(id) {
			return false, nil
		}
		clearHolder(secret)
		return true, nil
	})
	return p.reportRelease(ctx, key, id, released, err)
}

func (p *Pool) reportRelease(ctx context.Context, key Key, id instance.ID, released bool, err error) (bool, error) {
	if released {
		p.log.InfoContext(ctx, "wireguard key released", "key", key.Name(), "instance", id)
		p.events.Eventf(key.secret(), corev1.EventTypeNormal, "WireGuardKeyReleased", "Released by EC2 instance %s", id)
	}
	return released, err
}

// clearHolder makes a key free: nothing on it names an instance any more.
func clearHolder(secret *corev1.Secret) {
	if _, pooled := secret.Labels[InstanceLabel]; pooled {
		secret.Labels[InstanceLabel] = ""
	}
	for _, annotation := range []string{allocatedTo, allocatedAt, handedOutTo, handedOutAt, joinedAt} {
		delete(secret.Annotations, annotation)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, releasedAt, now())
}

// Restore puts the label back on a key that was allocated to the instance and
// lost its label; it reports whether it did.
func (p *Pool) Restore(ctx context.Context, name string, id instance.ID) (bool, error) {
	key, err := p.Get(ctx, name)
	if errors.Is(err, ErrUnusable) { // the Secret is gone
		return false, nil
	}
	if err != nil {
		return false, err
	}
	restored, err := p.change(ctx, key, func(secret *corev1.Secret) (bool, error) {
		if was, isLost := lost(secret); !isLost || was != id || secret.Type != SecretType {
			return false, nil
		}
		metav1.SetMetaDataLabel(&secret.ObjectMeta, InstanceLabel, string(id))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, allocatedTo, string(id))
		return true, nil
	})
	if restored {
		p.log.WarnContext(ctx, "label of a wireguard key restored", "key", name, "instance", id)
	}
	return restored, err
}
