// Package nodeowner tells which Node an instance or a host may become, and what
// the serving certificate of an instance's Node may name. All of it is computed
// anew from the token's claim, EC2 and the profiles: what a kubelet says of itself is only
// where to begin.
package nodeowner
