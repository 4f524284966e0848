package artifact

import (
	"errors"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
)

var errBadToken = errors.New("the bootstrap token does not have the form kubeadm wants")

// validateToken never says what the token is.
func validateToken(t bootstraptoken.Token) error {
	if !bootstraputil.IsValidBootstrapToken(t.Reveal()) {
		return errBadToken
	}
	return nil
}
