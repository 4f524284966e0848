// Package stack runs the parts that the daemon works with, on loopback and
// without a container engine: a Kubernetes control plane of etcd,
// kube-apiserver and kube-controller-manager, set up by kubeadm's own phases,
// and a stand-in for AWS, of ministack (SQS, SNS, EventBridge, STS) and moto
// (EC2).
//
// Every stack has a run folder and free ports of its own, so several run side
// by side. It needs Linux.
package stack
