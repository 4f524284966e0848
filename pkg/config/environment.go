package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// serviceLink is the form of the variables that Kubernetes puts into every
// container for each Service of the namespace. A Service called dynk8s-… gives
// names that begin like ours, and says nothing to us.
var serviceLink = regexp.MustCompile(
	`^DYNK8S_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment is what the environment variables of the process say.
type environment struct {
	// values has, by path, the values of settings.
	values map[string]any
	// others has the variables that are not ours.
	others   map[string]string
	warnings []string
	problems problems
}

// readEnvironment reads variables of the form NAME=value. Those without a
// value are as if they were not there.
func readEnvironment(environ []string) environment {
	e := environment{values: map[string]any{}, others: map[string]string{}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case value == "":
		case strings.HasPrefix(name, envPrefix):
			e.read(name, value)
		default:
			e.others[name] = value
		}
	}
	return e
}

func (e *environment) read(name, text string) {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.env()
		if names[i] != name {
			continue
		}
		v := reflect.New(s.in(&Config{}).Type()).Elem()
		if err := setText(v, text); err != nil {
			e.problems.addf(s.path, "%s", err)
		}
		e.values[s.path] = v.Interface()
		return
	}
	if serviceLink.MatchString(name) {
		return
	}
	warning := fmt.Sprintf("environment variable %s is not known and was ignored", clip(name))
	if near := nearest(name, names); near != "" {
		warning += ": did you mean " + near + "?"
	}
	e.warnings = append(e.warnings, warning)
}
