package config

import (
	"fmt"
	"reflect"
)

// look reads the file and deals with what changed. It returns true when the
// file is bad in a new way, which counts only if it is so at the next look
// too: it may be between two steps of being written, or gone for a moment.
func (w *Watcher) look() (suspicious bool) {
	data, err := readFile(w.cfg.Path)
	state := "content " + string(data)
	if err != nil {
		state = "error " + err.Error()
	}
	if state == w.seen {
		w.suspect = ""
		return false
	}
	var now *Config
	var warnings []string
	if err == nil {
		now, warnings, err = load(w.cfg.Path, data, w.cfg.Flags, w.cfg.Environ)
	}
	if err != nil && state != w.suspect {
		w.suspect = state
		return true
	}
	w.seen, w.suspect = state, ""
	if err == nil {
		err = w.apply(now, warnings)
	}
	if err != nil {
		w.reloads.WithLabelValues("failure").Inc()
		w.cfg.Logger.Error("configuration not reloaded, the old one stays", "err", err)
	}
	return false
}

// apply hands over what changed, if anything did.
func (w *Watcher) apply(now *Config, warnings []string) error {
	if reflect.DeepEqual(now, w.last) {
		return nil // another comment, or back to what is in force
	}
	r := newReload(w.started, now, warnings)
	if err := w.cfg.Apply(r); err != nil {
		return fmt.Errorf("put configuration in force: %w", err)
	}
	w.last = now
	w.reloads.WithLabelValues("success").Inc()
	w.cfg.Logger.Info("configuration reloaded", "path", w.cfg.Path)
	for _, warning := range warnings {
		w.cfg.Logger.Warn("configuration may not do what was meant", "warning", warning)
	}
	if len(r.RestartNeeded) > 0 {
		w.cfg.Logger.Warn("changed settings need a restart", "settings", r.RestartNeeded)
	}
	return nil
}
