package artifact

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var argName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,127}$`)

// reservedArgs are flags that are set here or by kubeadm, with what to use
// instead. Twice the same flag would silently undo the first.
var reservedArgs = map[string]string{
	"provider-id":                "it is derived from the instance",
	"node-ip":                    "it is the WireGuard address",
	"node-labels":                "use the node's labels",
	"hostname-override":          "use the node-name template",
	"register-with-taints":       "use the node's taints",
	"container-runtime-endpoint": "use the CRI socket",
}

func validateArgs(args []Arg) error {
	for i, a := range args {
		if !argName.MatchString(a.Name) {
			return fmt.Errorf("kubelet argument %d: %.64q is no name of a flag, which has no leading dashes", i, a.Name)
		}
		if instead, reserved := reservedArgs[a.Name]; reserved {
			return fmt.Errorf("kubelet argument %d: %s cannot be set: %s", i, a.Name, instead)
		}
		if !safeArgValue(a.Value) {
			return fmt.Errorf("kubelet argument %d: the value of %s holds white space, quotes, backslashes or control characters", i, a.Name)
		}
	}
	return nil
}

// safeArgValue refuses what would not survive kubeadm-flags.env: systemd
// splits that line at white space and takes quotes away, so such a value would
// become other flags.
func safeArgValue(s string) bool {
	bad := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`\\", r) }
	return utf8.ValidString(s) && !hasControl(s) && !strings.ContainsFunc(s, bad)
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// kubeletExtraArgs returns args in the shape the API version has for them: a
// list, or in v1beta3 a map, which cannot hold a flag twice.
func kubeletExtraArgs(apiVersion string, args []Arg) (any, error) {
	if apiVersion != V1Beta3 {
		return args, nil
	}
	byName := make(map[string]string, len(args))
	for _, a := range args {
		if _, twice := byName[a.Name]; twice {
			return nil, fmt.Errorf("kubelet argument %s stands twice, which %s cannot say", a.Name, V1Beta3)
		}
		byName[a.Name] = a.Value
	}
	return byName, nil
}
