package nodecertificate

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// NewInformer returns an informer over the cluster's certificate signing
// requests that keeps no more of each than it takes to know which are ours to
// decide. It must be run by the caller.
//
// A field selector takes one signer only; the API server deletes requests of
// any signer within a day or so, thus there are few.
func NewInformer(client kubernetes.Interface) (cache.SharedIndexInformer, error) {
	informer := certificatesinformers.NewCertificateSigningRequestInformer(client, 0, cache.Indexers{})
	return informer, informer.SetTransform(trim)
}

// trim drops what the event handler does not read. A certificate is only there
// after the condition that is kept.
func trim(object any) (any, error) {
	request, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return object, nil
	}
	slim := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: request.Name, UID: request.UID, ResourceVersion: request.ResourceVersion},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: request.Spec.SignerName,
			Username:   request.Spec.Username,
			Groups:     request.Spec.Groups,
		},
	}
	for _, c := range request.Status.Conditions {
		slim.Status.Conditions = append(slim.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{Type: c.Type, Status: c.Status})
	}
	return slim, nil
}
