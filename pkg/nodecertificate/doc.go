// Package nodecertificate approves and denies the certificate signing requests
// (CSRs) of the Nodes of EC2 instances and of hosts, so that a bootstrap token can only
// become the Node that it was made for, and so that a kubelet's serving
// certificate names nothing but its own instance.
//
// It is for tokens of a group of their own, to which Kubernetes' own approver
// of kubelets' requests is not bound. Two kinds of request are looked at: for
// the signer kubernetes.io/kube-apiserver-client-kubelet those made with such a
// token, and for kubernetes.io/kubelet-serving those of a Node. All others are
// left to other approvers; a kubelet's renewal of its client certificate is one
// of them. Signers and requests are described in
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/.
//
// The API server must allow the program, in the group certificates.k8s.io:
//   - get, list and watch on certificatesigningrequests;
//   - update on certificatesigningrequests/approval;
//   - approve on signers, with the resource names
//     kubernetes.io/kube-apiserver-client-kubelet and
//     kubernetes.io/kubelet-serving. Its admission plugin CertificateApproval
//     asks for that, for a denial too.
package nodecertificate
