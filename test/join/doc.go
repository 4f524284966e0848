// Package join plays an EC2 instance that joins the cluster: the real `kubeadm
// join` and the real kubelet, over Kubernetes' own fake container runtime, with
// the artifacts exactly as the daemon serves them.
//
// Each node lives in user, mount, network and process namespaces of its own.
// kubeadm and the kubelet have fixed paths, ports and a fixed idea of owning
// the machine; a kubelet that root runs plainly changes sysctls and the packet
// filter. Inside, the machine's files are read-only but for overlays in memory;
// the node's address, which would be WireGuard's, lies on the loopback device;
// and the API server's address leads through a unix socket to the real one. So
// nothing of the machine is changed, several nodes stand side by side, nothing
// secret reaches a disk, and when the first process ends the kernel ends all.
//
// It needs Linux with unprivileged user namespaces and a kernel of 5.12 or
// later, and no root.
package join
