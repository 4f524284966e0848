// Package nodeowner tells which Node an instance may become, and what the
// serving certificate of that Node may name. All of it is computed anew from the
// token's claim, EC2 and the profiles: what a kubelet says of itself is only
// where to begin.
package nodeowner
