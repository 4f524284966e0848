package instance

import (
	"fmt"
	"regexp"
	"strings"
)

// ID is an EC2 instance id such as i-0123456789abcdef0. Values come from
// ParseID, so an ID is always safe as a label value, a URL path segment and a
// part of a Kubernetes name.
type ID string

// Label is the Kubernetes label that says to which instance an object belongs,
// on key Secrets, token Secrets and Nodes alike. It is a contract with the
// operator.
const Label = "dynk8s.du5t1n.me/ec2-instance-id"

// HostLabel is the Kubernetes label that says, on a token Secret and on a Node,
// of which host it is: a machine that is not in EC2 and that an operator added.
const HostLabel = "dynk8s.du5t1n.me/host"

// EC2 ids have 8 hexadecimal digits (before 2016) or 17.
var idPattern = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// ParseID returns s as an ID. Anything but "i-" and 8 or 17 lower-case
// hexadecimal digits is an error, which quotes at most 64 bytes of s.
func ParseID(s string) (ID, error) {
	if !idPattern.MatchString(s) {
		return "", fmt.Errorf("%q is no EC2 instance id: want i- and 8 or 17 hexadecimal digits", s[:min(len(s), 64)])
	}
	return ID(s), nil
}

// providerIDPrefix begins the provider id of every Node that runs on EC2; the
// zone follows.
const providerIDPrefix = "aws:///"

// IDFromProviderID returns the instance id in a Node's spec.providerID, which
// has the form aws:///<zone>/<instance id>. It reports false for any other
// form, the empty one of a Node that is not in EC2 among them.
func IDFromProviderID(providerID string) (ID, bool) {
	rest, inEC2 := strings.CutPrefix(providerID, providerIDPrefix)
	zone, last, found := strings.Cut(rest, "/")
	if !inEC2 || !found || zone == "" {
		return "", false
	}
	id, err := ParseID(last)
	return id, err == nil
}
