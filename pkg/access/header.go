package access

import (
	"net/http"
	"strings"

	"dynk8s.du5t1n.me/provisioner/pkg/httpserver"
)

// Scheme is the authentication scheme: Authorization: Instance-Identity, and
// the document as IMDS gives it under dynamic/instance-identity/rsa2048, without
// line breaks.
const Scheme = "Instance-Identity"

// credentials returns the encoded document of a request.
func credentials(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", httpserver.ErrNoCredentials
	}
	if len(values) > 1 {
		return "", refuse(reasonMalformed, "there are %d Authorization headers", len(values))
	}
	scheme, encoded, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, Scheme) {
		return "", refuse(reasonMalformed, "the Authorization header is not of the form %s DOCUMENT", Scheme)
	}
	return encoded, nil
}
