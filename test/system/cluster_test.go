//go:build linux

package system

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// keysOf returns the key Secrets of the test's pool by their holder.
func (w *world) keysOf() (map[instance.ID][]corev1.Secret, error) {
	return keys.ByHolder(w.ctx, w.client, w.namespace)
}

// tokensOf returns the bootstrap token Secrets of an instance.
func (w *world) tokensOf(id instance.ID) ([]corev1.Secret, error) {
	tokens, err := keys.Tokens(w.ctx, w.client, id)
	for _, s := range tokens {
		secrets.add("token secret of "+s.Name, string(s.Data["token-secret"]))
	}
	return tokens, err
}

// provisioned returns nil when each instance holds exactly one key and one
// token, the token names the key, and nobody else holds a key.
func (w *world) provisioned(ids ...instance.ID) error {
	held, err := w.keysOf()
	if err != nil {
		return err
	}
	for _, id := range ids {
		tokens, err := w.tokensOf(id)
		if err != nil {
			return err
		}
		if len(held[id]) != 1 || len(tokens) != 1 {
			return fmt.Errorf("instance %s holds %d keys and %d tokens", id, len(held[id]), len(tokens))
		}
		if named := tokens[0].Annotations["dynk8s.du5t1n.me/wireguard-key"]; named != held[id][0].Name {
			return fmt.Errorf("the token of %s names key %s, but it holds %s", id, named, held[id][0].Name)
		}
	}
	if len(held) != len(ids) {
		return fmt.Errorf("%d instances hold keys, want %d", len(held), len(ids))
	}
	return nil
}

// takenBack returns nil when none of the instances holds a key or a token.
func (w *world) takenBack(ids ...instance.ID) error {
	held, err := w.keysOf()
	if err != nil {
		return err
	}
	for _, id := range ids {
		tokens, err := w.tokensOf(id)
		if err != nil {
			return err
		}
		if len(held[id])+len(tokens) > 0 {
			return fmt.Errorf("instance %s still holds %d keys and %d tokens", id, len(held[id]), len(tokens))
		}
	}
	return nil
}

// queuesHold returns nil when the queue and the dead-letter queue hold so many
// messages.
func (w *world) queuesHold(inQueue, dead int) error {
	q, err := w.stack.Messages(w.ctx, w.path.QueueURL)
	if err != nil {
		return err
	}
	d, err := w.stack.Messages(w.ctx, w.path.DLQURL)
	if err != nil {
		return err
	}
	if q != inQueue || d != dead {
		return fmt.Errorf("%d messages in the queue and %d dead letters, want %d and %d", q, d, inQueue, dead)
	}
	return nil
}

// fetch gets an artifact with the instance's own identity document, and wants
// that status.
func (w *world) fetch(d *daemon.Daemon, artifact string, id instance.ID, status int) ([]byte, error) {
	document, err := w.ec2.Document(w.ctx, id)
	if err != nil {
		return nil, err
	}
	secrets.add("identity document of "+string(id), document)
	return w.fetchWith(d, artifact, id, document, status)
}

// fetchWith does so with any document.
func (w *world) fetchWith(d *daemon.Daemon, artifact string, id instance.ID, document string, status int) ([]byte, error) {
	code, body, err := d.Fetch(w.ctx, "/"+artifact+"/"+string(id), document)
	if err != nil {
		return nil, err
	}
	if code != status {
		return nil, fmt.Errorf("%s of %s answers %d, want %d", artifact, id, code, status)
	}
	return body, nil
}

// expiration reads when a token Secret expires.
func expiration(token corev1.Secret) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, string(token.Data["expiration"]))
	if err != nil {
		return t, errors.New("the token's expiration is no RFC 3339 time")
	}
	return t, nil
}
