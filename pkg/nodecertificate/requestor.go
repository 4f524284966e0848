package nodecertificate

import (
	"context"
	"errors"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
)

// Names that the API server gives to Nodes, and asks of them:
// https://kubernetes.io/docs/reference/access-authn-authz/node/.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// signer is one of the two signers as metrics and logs name it.
type signer string

const (
	clientSigner  signer = "client"
	servingSigner signer = "serving"
)

// requestor is who made a request. The API server has written it there.
type requestor struct {
	signer signer
	// name is the token's id for a client certificate, the Node's name for a
	// serving certificate.
	name string
}

// requestorOf reports false for a request that is none of our business, by its
// signer and by who made it.
func (a *Approver) requestorOf(request *certificatesv1.CertificateSigningRequest) (requestor, bool) {
	spec := &request.Spec
	switch spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		id, isToken := strings.CutPrefix(spec.Username, bootstrapapi.BootstrapUserPrefix)
		return requestor{clientSigner, id}, isToken && slices.Contains(spec.Groups, a.group)
	case certificatesv1.KubeletServingSignerName:
		name, isNode := strings.CutPrefix(spec.Username, nodeUserPrefix)
		isNode = isNode && len(validation.IsDNS1123Subdomain(name)) == 0
		return requestor{servingSigner, name}, isNode && slices.Contains(spec.Groups, nodesGroup)
	default:
		return requestor{}, false
	}
}

// pending reports whether nobody has decided on the request.
func pending(request *certificatesv1.CertificateSigningRequest) bool {
	return len(request.Status.Certificate) == 0 &&
		!slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved ||
				c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}

// subjectOf asks which Node the requestor may be. It answers with no Subject
// without a name, for which "system:node:" would do.
func (a *Approver) subjectOf(ctx context.Context, r requestor) (Subject, error) {
	ask := a.owners.OfNode
	if r.signer == clientSigner {
		ask = a.ofToken
	}
	s, err := ask(ctx, r.name)
	if err == nil && (s.NodeName == "" || (s.InstanceID == "") != s.Host || (s.Host && r.signer == servingSigner)) {
		err = errors.New("owner without a node name or an instance id")
	}
	return s, err
}

func (a *Approver) ofToken(ctx context.Context, id string) (Subject, error) {
	if !bootstraputil.IsValidBootstrapTokenID(id) {
		return Subject{}, refusef("%s is no bootstrap token id", quote(id))
	}
	s, err := a.owners.OfToken(ctx, id)
	if errors.Is(err, ErrNotOurs) {
		return Subject{}, refusef("bootstrap token %s was made for no instance and no host", id)
	}
	return s, err
}
