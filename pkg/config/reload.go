package config

import "reflect"

// Reload is a changed configuration.
type Reload struct {
	// Config is what is to be in force: the settings that can change in a
	// running program as the file has them now, all others as they were.
	Config *Config
	// RestartNeeded has the paths of the settings that the file changed since
	// the start but that only a restart puts in force.
	RestartNeeded []string
	// Warnings are as Load returns them.
	Warnings []string
}

// reloadable is the one setting beside the profiles that can change in a
// running program.
const reloadable = "log.level"

// newReload joins the configuration the program started with and the file's
// present one.
func newReload(started, now *Config, warnings []string) Reload {
	merged := *started
	merged.Profiles, merged.Log.Level = now.Profiles, now.Log.Level
	r := Reload{Config: &merged, Warnings: warnings}
	for _, s := range settings {
		if s.path != reloadable && !same(s.in(started), s.in(now)) {
			r.RestartNeeded = append(r.RestartNeeded, s.path)
		}
	}
	return r
}

func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true // left out or [] is the same
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
