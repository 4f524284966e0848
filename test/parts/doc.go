// Package parts builds, once a machine, the real programs that the local stack
// runs: the Kubernetes control plane with kubeadm and the kubelet, and the
// stand-in for AWS.
//
// What is built lies outside the tree in ${XDG_CACHE_HOME:-~/.cache}/dynk8s, in
// folders named after the version and a hash of the files that pin it, so a
// second clone finds it and a changed pin does not find the old one. Two
// processes may ask at once: one builds, the other waits.
package parts
