// Package host closes the way into the cluster behind hosts: Nodes that are not
// in EC2 and that an operator added by hand. A host's token is revoked once the
// host has joined, or has let the token expire. Nothing that happens to
// instances touches hosts.
package host
