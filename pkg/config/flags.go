package config

import "github.com/spf13/pflag"

// flag is a command-line flag over a setting.
type flag struct{ name, path, usage string }

// textFlags are the flags that take a text. There are flags only for what one
// changes from a shell; all else is for the file.
var textFlags = []flag{
	{"queue-url", "queue.url", "URL of the SQS queue"},
	{"aws-region", "aws.region", "AWS region of the instances (default: AWS_REGION, else the queue's)"},
	{"kubeconfig", "kubernetes.kubeconfig", "path of a kubeconfig (default: the pod's service account)"},
	{"namespace", "kubernetes.namespace", "namespace of the WireGuard key Secrets (default: the pod's)"},
	{"artifacts-address", "artifacts.address", "host:port of the artifact endpoint"},
	{"operations-address", "operations.address", "host:port of health, readiness and metrics"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "json or text"},
}

var identityFlag = flag{"identity-required", "artifacts.identity.required",
	"refuse callers without an instance identity document"}

// AddFlags defines the flags that Load puts over the file and the
// environment. Their own defaults are for the help text only: a flag that was
// not given changes nothing.
func AddFlags(fs *pflag.FlagSet) {
	defaults := Defaults()
	for _, f := range textFlags {
		fs.String(f.name, settingAt(f.path).in(defaults).String(), f.usage)
	}
	fs.Bool(identityFlag.name, defaults.Artifacts.Identity.Required, identityFlag.usage)
}

// boundFlags returns by path those of our flags that fs has; fs may be nil.
func boundFlags(fs *pflag.FlagSet) map[string]*pflag.Flag {
	bound := map[string]*pflag.Flag{}
	if fs == nil {
		return bound
	}
	for _, f := range append([]flag{identityFlag}, textFlags...) {
		if found := fs.Lookup(f.name); found != nil {
			bound[f.path] = found
		}
	}
	return bound
}

// settingAt returns the setting with that path, which must be there.
func settingAt(path string) setting {
	for _, s := range settings {
		if s.path == path {
			return s
		}
	}
	panic("config: no setting " + path)
}
