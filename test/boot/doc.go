// Package boot plays the first boot of an EC2 instance with everything real that
// can be: the script userdata/dynk8s-join, wg-quick and WireGuard, the daemon with
// its TLS endpoint, kubeadm, the kubelet and the API server.
//
// Two machines of package machine are joined by a virtual cable, the internet. On
// one side is the cluster: a WireGuard server, the artifact endpoint on a public
// address, and the API server, which is reached by the WireGuard interface only.
// On the other side is the cloud: an instance with its metadata service, which
// knows the way to the public address and nothing else.
//
//	instance ── 198.51.100.n ── cable ── 192.0.2.1 ─┬─ :443, the daemon
//	   │                                            └─ :51820, WireGuard
//	   └─ 10.99.x.y ────── tunnel ────── 10.99.0.1 ──── :6443, the API server
//
// Played are systemd (join.Systemctl), the container runtime (Kubernetes' own
// fake), IMDS (package imds) and EC2 (package ec2world). Where the kernel has no
// WireGuard, wireguard-go takes its place, as wg-quick itself would have it.
//
// It needs no root, but /dev/net/tun must be open to the user, which it is on
// common distributions.
package boot
