// Package wireguardpeer makes WireGuard keys for a pool: for each a key Secret, as
// package wireguardkey reads them, and the section by which the VPN server knows
// the peer. It contacts nobody.
package wireguardpeer
