// Package artifact renders the documents an instance fetches at its first boot:
// the WireGuard configuration, the discovery kubeconfig and kubeadm's join
// configuration. It decides nothing about who may fetch them.
package artifact
