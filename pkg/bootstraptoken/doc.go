// Package bootstraptoken makes and takes back kubeadm bootstrap tokens.
//
// A token is a Secret of type bootstrap.kubernetes.io/token in kube-system, in
// the format of
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/.
// For us it is more than that: it is the claim of one instance. Its name is
// derived from the instance id, so that creating it is atomic, and an
// annotation on it names the one WireGuard key that is meant for the instance.
package bootstraptoken
