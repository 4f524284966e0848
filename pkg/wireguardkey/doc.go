// Package wireguardkey hands out WireGuard keys from a pool of Secrets.
//
// The operator makes the keys beforehand, configures them on the VPN server and
// stores each in a Secret of type dynk8s.du5t1n.me/wireguard-key. A label on
// the Secret is the record of who holds it: empty means free, an instance id
// means allocated, and a Secret without the label is not in the pool. Every
// change is an update by resourceVersion, so a key goes to one instance only.
//
// A key is marked before it is handed out. From then on it belongs to its
// instance until that is dead, whatever becomes of the label's other records.
package wireguardkey
