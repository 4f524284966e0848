package config

import (
	"reflect"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// layered lets viper choose each setting's value: a flag that was given, else
// the environment, else the file, else the default. Profiles come from the
// file alone.
func layered(file document, env map[string]any, flags map[string]*pflag.Flag) *Config {
	c, v := Defaults(), viper.New()
	for _, s := range settings {
		v.SetDefault(s.path, s.in(c).Interface())
		if file.written[s.path] {
			merge(v, s.path, s.in(&file.Config).Interface())
		}
		// viper reads the process's environment only; what we were given goes
		// over the file instead, which comes to the same.
		if value, set := env[s.path]; set {
			merge(v, s.path, value)
		}
		if f := flags[s.path]; f != nil {
			_ = v.BindPFlag(s.path, f) // fails for a nil flag only
		}
		s.in(c).Set(reflect.ValueOf(v.Get(s.path)))
	}
	c.Profiles = file.Profiles
	return c
}

func merge(v *viper.Viper, path string, value any) {
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		value = map[string]any{parts[i]: value}
	}
	_ = v.MergeConfigMap(value.(map[string]any)) // has no way to fail
}
