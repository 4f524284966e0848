package bootstraptoken

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// HostLabel holds, on a token Secret, the name of the host that the token was
// made for, and on the host's Node the same name. A host is a machine that is
// not in EC2: no event and no look at EC2 ever takes its token back.
const HostLabel = instance.HostLabel

// HostRequest says for which host a token is made.
type HostRequest struct {
	// Name is that of the host's Node, valid as a label value.
	Name string
	// Profile is the name of the profile whose node settings the host has; empty
	// for none.
	Profile  string
	Settings Settings
}

// HostToken is a token Secret of a host as it was read.
type HostToken struct {
	Host, Profile string
	Token         Token
	Created       time.Time
	// Expires is zero, long past, when the Secret holds no time that can be read.
	Expires time.Time

	name            string
	uid             types.UID
	resourceVersion string
}

// Expired reports whether the API server refuses the token at time now.
func (t HostToken) Expired(now time.Time) bool { return !now.Before(t.Expires) }

// UID is that of the Secret. A token that is made anew has another.
func (t HostToken) UID() string { return string(t.uid) }

// hostTokenOf reads a token Secret. It reports false when the Secret is not a
// token of a host. One that says it is of an instance too is the instance's.
func hostTokenOf(secret *corev1.Secret) (HostToken, bool) {
	host := secret.Labels[HostLabel]
	_, ofInstance := secret.Labels[InstanceLabel]
	if host == "" || ofInstance || secret.Type != corev1.SecretTypeBootstrapToken {
		return HostToken{}, false
	}
	return HostToken{
		Host:    host,
		Profile: secret.Annotations[profileAnnotation],
		Token: NewToken(
			string(secret.Data[bootstrapapi.BootstrapTokenIDKey]),
			string(secret.Data[bootstrapapi.BootstrapTokenSecretKey])),
		Created:         secret.CreationTimestamp.Time,
		Expires:         parseTime(string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey])),
		name:            secret.Name,
		uid:             secret.UID,
		resourceVersion: secret.ResourceVersion,
	}, true
}

// hostSecretObject returns the Secret of a host's token. It may authenticate and
// nothing else, whatever the settings say: a host discovers by file.
func hostSecretObject(tokenID, secret string, r HostRequest, expires time.Time) *corev1.Secret {
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      bootstraputil.BootstrapTokenSecretName(tokenID),
			Namespace: metav1.NamespaceSystem,
			Labels:    map[string]string{HostLabel: r.Name},
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(tokenID),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenDescriptionKey:      []byte("host " + r.Name),
		},
	}
	settle(object, r, expires)
	return object
}

// settle writes into a Secret what may differ from one request to the next.
func settle(secret *corev1.Secret, r HostRequest, expires time.Time) {
	secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = formatExpiration(expires)
	delete(secret.Data, bootstrapapi.BootstrapTokenExtraGroupsKey)
	if len(r.Settings.ExtraGroups) > 0 {
		secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(r.Settings.ExtraGroups, ","))
	}
	delete(secret.Annotations, profileAnnotation)
	if r.Profile != "" {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, profileAnnotation, r.Profile)
	}
}

// usable reports whether the token can be handed out once more: it lives, and is
// one that the API server knows as it is written here.
func (t HostToken) usable(now time.Time) bool {
	return !t.Expired(now) && bootstraputil.IsValidBootstrapToken(t.Token.Reveal()) &&
		bootstraputil.BootstrapTokenSecretName(t.Token.ID()) == t.name
}
