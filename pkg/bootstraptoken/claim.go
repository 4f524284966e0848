package bootstraptoken

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// InstanceLabel holds, on a token Secret, the instance that the token was made
// for.
const InstanceLabel = instance.Label

// Annotations of a token Secret.
const (
	keyAnnotation      = "dynk8s.du5t1n.me/wireguard-key"
	profileAnnotation  = "dynk8s.du5t1n.me/profile"
	zoneAnnotation     = "dynk8s.du5t1n.me/zone"
	dnsNameAnnotation  = "dynk8s.du5t1n.me/private-dns-name"
	typeAnnotation     = "dynk8s.du5t1n.me/instance-type"
	reissueAnnotation  = "dynk8s.du5t1n.me/reissued-until"  // RFC 3339; an operator asked for the token
	besideAnnotation   = "dynk8s.du5t1n.me/reissued-beside" // the Ready Node that there was then
	instanceAnnotation = InstanceLabel                      // shadow of the label, should a hand remove it
)

// Settings are what a profile says of the tokens made for its instances.
type Settings struct {
	// TTL is how long a token lives from its creation or renewal.
	TTL time.Duration
	// ExtraGroups are the groups the token authenticates as, besides
	// system:bootstrappers. Each begins with system:bootstrappers:.
	ExtraGroups []string
	// Signing also lets the token sign cluster-info, which only kubeadm's token
	// discovery needs.
	Signing bool
}

// Request says for whom a token is made, and which key goes with it.
type Request struct {
	Instance instance.Instance
	// Profile is the name of the profile that the instance matched.
	Profile string
	// KeyName is the name of the WireGuard key Secret that the claim names.
	KeyName  string
	Settings Settings
	// Reissue says that an operator asked for the token, so that the instance may
	// fetch its artifacts whether or not it joined before, until the token's first
	// expiry.
	Reissue bool
	// ReadyNode tells which Ready Node the instance had at a reissue; empty for
	// none. What it says is the caller's.
	ReadyNode string
}

// Claim is a token Secret as it was read.
type Claim struct {
	InstanceID instance.ID
	// KeyName is the name of the key Secret that is meant for the instance.
	KeyName string
	// Profile, Zone, PrivateDNSName and InstanceType are as they were when the
	// instance was admitted.
	Profile, Zone, PrivateDNSName, InstanceType string
	Token                                       Token
	Created                                     time.Time
	// Expires is zero, long past, when the Secret holds no time that can be read.
	Expires time.Time
	// ReissuedUntil is zero unless an operator asked for the token. Until then the
	// instance may fetch its artifacts whether or not it joined before.
	ReissuedUntil time.Time
	// ReadyNode is that of the Request, for a reissued token.
	ReadyNode string

	name            string
	uid             types.UID
	resourceVersion string
}

// Expired reports whether the API server refuses the token at time now.
func (c Claim) Expired(now time.Time) bool { return !now.Before(c.Expires) }

// Reissued reports whether an operator's reissue is in force at time now.
func (c Claim) Reissued(now time.Time) bool { return now.Before(c.ReissuedUntil) }

// Lacks reports whether EC2 knows of the instance what the claim does not say. At
// the claim's creation it may not have: a private DNS name comes only with the
// state running.
func (c Claim) Lacks(inst instance.Instance) bool {
	return (c.Zone == "" && inst.Zone != "") || (c.PrivateDNSName == "" && inst.PrivateDNSName != "") ||
		(c.InstanceType == "" && inst.Type != "")
}

// claimOf reads a token Secret. It reports false when the Secret is not a claim
// of ours.
func claimOf(secret *corev1.Secret) (Claim, bool) {
	owner, owned := secret.Labels[InstanceLabel]
	id, err := instance.ParseID(owner)
	if !owned || err != nil || secret.Type != corev1.SecretTypeBootstrapToken {
		return Claim{}, false
	}
	return Claim{
		InstanceID:     id,
		KeyName:        secret.Annotations[keyAnnotation],
		Profile:        secret.Annotations[profileAnnotation],
		Zone:           secret.Annotations[zoneAnnotation],
		PrivateDNSName: secret.Annotations[dnsNameAnnotation],
		InstanceType:   secret.Annotations[typeAnnotation],
		Token: NewToken(
			string(secret.Data[bootstrapapi.BootstrapTokenIDKey]),
			string(secret.Data[bootstrapapi.BootstrapTokenSecretKey])),
		Created:         secret.CreationTimestamp.Time,
		Expires:         parseTime(string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey])),
		ReissuedUntil:   parseTime(secret.Annotations[reissueAnnotation]),
		ReadyNode:       secret.Annotations[besideAnnotation],
		name:            secret.Name,
		uid:             secret.UID,
		resourceVersion: secret.ResourceVersion,
	}, true
}

// parseTime returns the zero time, long past, for what is no time: unparsable
// counts as expired, as in the API server's authenticator.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// newSecretObject returns the Secret of a token with the given id.
func newSecretObject(namespace, tokenID, secret string, r Request, expires time.Time) *corev1.Secret {
	data := map[string][]byte{
		bootstrapapi.BootstrapTokenIDKey:               []byte(tokenID),
		bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
		bootstrapapi.BootstrapTokenExpirationKey:       formatExpiration(expires),
		bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
		bootstrapapi.BootstrapTokenDescriptionKey:      []byte("EC2 instance " + string(r.Instance.ID)),
	}
	if len(r.Settings.ExtraGroups) > 0 {
		data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(strings.Join(r.Settings.ExtraGroups, ","))
	}
	if r.Settings.Signing {
		data[bootstrapapi.BootstrapTokenUsageSigningKey] = []byte("true")
	}
	annotations := descriptionOf(r.Instance)
	annotations[instanceAnnotation] = string(r.Instance.ID)
	annotations[keyAnnotation] = r.KeyName
	if r.Profile != "" {
		annotations[profileAnnotation] = r.Profile
	}
	if r.Reissue {
		annotations[reissueAnnotation] = string(formatExpiration(expires))
		annotations[besideAnnotation] = r.ReadyNode
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:        bootstraputil.BootstrapTokenSecretName(tokenID),
			Namespace:   namespace,
			Labels:      map[string]string{InstanceLabel: string(r.Instance.ID)},
			Annotations: annotations,
		},
		Type: corev1.SecretTypeBootstrapToken,
		Data: data,
	}
}

// descriptionOf returns the annotations that say what EC2 knows of an instance,
// without those of which it knows nothing.
func descriptionOf(inst instance.Instance) map[string]string {
	annotations := map[string]string{
		zoneAnnotation:    inst.Zone,
		dnsNameAnnotation: inst.PrivateDNSName,
		typeAnnotation:    inst.Type,
	}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	return annotations
}

// formatExpiration writes a time as the token authenticator reads it: RFC 3339,
// UTC, whole seconds.
func formatExpiration(t time.Time) []byte {
	return []byte(t.UTC().Format(time.RFC3339))
}
