package ec2lookup

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

// EC2's limits: values of one filter, bytes of one value, filters of a call.
const (
	maxFilterValues = 200
	maxFilterBytes  = 255
	maxFilters      = 50
)

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// filters puts into EC2's words what it can understand of a selector. They
// never exclude what the selector matches; that they let more through costs
// only time, for every answer is matched again. EC2 wants each filter's name
// once, so of two conditions that need the same the first is sent.
func filters(s instance.Selector) []types.Filter {
	out := []types.Filter{filter("instance-state-name", string(instance.Pending), string(instance.Running))}
	sent := map[string]bool{}
	for _, c := range s.Conditions() {
		f, ok := conditionFilter(c)
		if !ok || sent[*f.Name] || len(out) == maxFilters {
			continue
		}
		sent[*f.Name] = true
		out = append(out, f)
	}
	return out
}

// conditionFilter is the filter for values, or for a tag that must be there.
// EC2 knows none for what must not be.
func conditionFilter(c instance.Condition) (types.Filter, bool) {
	switch {
	case strings.ContainsAny(c.Key, `*?\`):
		return types.Filter{}, false // would be a wildcard
	case len(c.Values) > 0 && len(c.Values) <= maxFilterValues && !slices.ContainsFunc(c.Values, unclear):
		return filter("tag:"+c.Key, c.Values...), true
	case c.Exists || len(c.Values) > 0:
		return filter("tag-key", c.Key), true
	}
	return types.Filter{}, false
}

// unclear reports whether EC2 might take the value for another one than we do,
// or refuse it: empty, escaped or long.
func unclear(value string) bool {
	return value == "" || len(value) > maxFilterBytes || strings.ContainsRune(value, '\\')
}
