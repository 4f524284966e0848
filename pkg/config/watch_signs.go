package config

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// signs tell that the file may have changed. Without them, as where the
// system's watches are used up, the channels are nil and the regular looks
// must do.
type signs struct {
	events <-chan fsnotify.Event
	errors <-chan error
	fs     *fsnotify.Watcher
	path   string
}

func (w *Watcher) openSigns() signs {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.cfg.Logger.Warn("configuration file is not watched, only read now and then",
			"err", err, "every", w.cfg.Resync)
		return signs{}
	}
	return signs{events: fs.Events, errors: fs.Errors, fs: fs, path: w.cfg.Path}
}

// renew watches the file's folder, and the one it links into. Folders are
// watched, not the file, which is replaced by rename: by editors, and by
// Kubernetes, which swaps the link ..data. Done again and again, since a
// folder that was replaced takes its watch with it.
func (s signs) renew() {
	if s.fs == nil {
		return
	}
	// A folder that is missing now is there at another look.
	_ = s.fs.Add(filepath.Dir(s.path))
	if target, err := filepath.EvalSymlinks(s.path); err == nil && filepath.Dir(target) != filepath.Dir(s.path) {
		_ = s.fs.Add(filepath.Dir(target))
	}
}

func (s signs) close() {
	if s.fs != nil {
		_ = s.fs.Close() // nothing of ours is lost by it
	}
}
