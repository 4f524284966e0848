package nodecertificate

import (
	"encoding/asn1"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Attributes of a subject, RFC 5280 appendix A.1, and the extension that holds
// the subject alternative names.
var (
	oidCommonName             = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization           = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidSubjectAlternativeName = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// check returns nil only when the request asks for what the subject may have,
// and for nothing else. Any error is a Refusal.
func check(r requestor, spec *certificatesv1.CertificateSigningRequestSpec, s Subject) error {
	request, err := parseRequest(spec.Request)
	if err != nil {
		return err
	}
	if r.signer == clientSigner {
		err = checkClient(request, spec.Usages, s)
	} else {
		err = checkServing(request, spec.Usages, s, r.name)
	}
	if err != nil {
		return err
	}
	// Last, since it is what takes time.
	if err := request.CheckSignature(); err != nil {
		return refusef("request's signature: %s", quote(err.Error()))
	}
	return nil
}

func checkClient(request certificateRequest, usages []certificatesv1.KeyUsage, s Subject) error {
	if err := checkSubject(request, s.NodeName); err != nil {
		return err
	}
	if err := checkUsages(usages, certificatesv1.UsageClientAuth); err != nil {
		return err
	}
	if len(request.DNSNames)+len(request.IPAddresses)+len(request.EmailAddresses)+len(request.URIs) > 0 {
		return Refusal("request has subject alternative names, which a client certificate may not have")
	}
	if len(request.Extensions) > 0 {
		return refusef("request has the extension %s, which a client certificate may not have", quote(request.Extensions[0].Id.String()))
	}
	if request.attributes > 0 { // extensions that cannot be read perhaps
		return Refusal("request has attributes, which one for a client certificate may not have")
	}
	return nil
}

func checkServing(request certificateRequest, usages []certificatesv1.KeyUsage, s Subject, nodeName string) error {
	if s.NodeName != nodeName {
		return refusef("the node of instance %s is %q, not %q", s.InstanceID, s.NodeName, nodeName)
	}
	if err := checkSubject(request, nodeName); err != nil {
		return err
	}
	if err := checkUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	return checkNames(request, s)
}

// checkSubject wants O = system:nodes, CN = system:node:<name>, in any order.
func checkSubject(request certificateRequest, nodeName string) error {
	var commonNames, organizations []string
	for _, attribute := range request.Subject.Names {
		value, _ := attribute.Value.(string)
		switch {
		case attribute.Type.Equal(oidCommonName):
			commonNames = append(commonNames, value)
		case attribute.Type.Equal(oidOrganization):
			organizations = append(organizations, value)
		default:
			return refusef("subject has the attribute %s; only a common name and an organization are allowed", quote(attribute.Type.String()))
		}
	}
	if want := nodeUserPrefix + nodeName; !slices.Equal(commonNames, []string{want}) {
		return refusef("subject has the common name %s, want %q", quoteAll(commonNames), want)
	}
	if !slices.Equal(organizations, []string{nodesGroup}) {
		return refusef("subject has the organization %s, want %q", quoteAll(organizations), nodesGroup)
	}
	if len(request.subject) != 2 { // both in one, or one that is empty
		return refusef("subject has %d relative distinguished names, want 2", len(request.subject))
	}
	return nil
}

// checkUsages wants a digital signature and one purpose. A kubelet with an RSA
// key may ask for key encipherment too.
func checkUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	got := sets.New(usages...).Delete(certificatesv1.UsageKeyEncipherment)
	if !got.Equal(sets.New(certificatesv1.UsageDigitalSignature, purpose)) {
		return refusef("usages are %s, want %q and %q", quoteAll(usages), certificatesv1.UsageDigitalSignature, purpose)
	}
	return nil
}
