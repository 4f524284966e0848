package config

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/pflag"
)

// WatcherConfig says what a Watcher watches and whom it tells.
type WatcherConfig struct {
	// Path, Flags and Environ are what Load was given.
	Path    string
	Flags   *pflag.FlagSet
	Environ []string
	// Apply puts a reload in force. Its error refuses the reload; then what
	// was in force must still be. It is called by Run, one call at a time.
	Apply func(Reload) error
	// Settle is how long the file must be left alone before it is read, so
	// that a write in several steps is seen once; 0 means 500 ms.
	Settle time.Duration
	// Resync is how often the file is read without any sign of a change, for
	// file systems that give none; 0 means one minute.
	Resync time.Duration
	// Registerer takes the metrics; nil means nowhere.
	Registerer prometheus.Registerer
	// Logger is slog.Default when nil.
	Logger *slog.Logger
}

// Watcher reloads the configuration when its file changes. A file that is bad
// or missing is reported, and what was in force stays.
type Watcher struct {
	cfg     WatcherConfig
	reloads *prometheus.CounterVec
	// started is the configuration of the start, last the good one read last.
	started, last *Config
	// seen is the content, or the error, that was dealt with last; suspect is
	// a bad one that was seen once.
	seen, suspect string
}

// NewWatcher returns a Watcher for a program that started with the given
// configuration.
func NewWatcher(started *Config, cfg WatcherConfig) *Watcher {
	if cfg.Settle <= 0 {
		cfg.Settle = 500 * time.Millisecond
	}
	if cfg.Resync <= 0 {
		cfg.Resync = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	reloads := promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "dynk8s_config_reloads_total",
		Help: "Changes of the configuration file, by result: success or failure.",
	}, []string{"result"})
	reloads.WithLabelValues("success")
	reloads.WithLabelValues("failure")
	return &Watcher{cfg: cfg, reloads: reloads, started: started, last: started}
}

// Run watches until ctx is done, then returns nil. Nothing that happens to the
// file ends it.
func (w *Watcher) Run(ctx context.Context) error {
	signs := w.openSigns()
	defer signs.close()
	w.loop(ctx, signs)
	return nil
}

func (w *Watcher) loop(ctx context.Context, signs signs) {
	// The first look is at once: the file may have changed since it was
	// loaded.
	next := time.NewTimer(0)
	defer next.Stop()
	waiting := false
	// soon does not put off a look that is near already: in a busy folder it
	// would never come.
	soon := func() {
		if !waiting {
			next.Reset(w.cfg.Settle)
		}
		waiting = true
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-signs.events:
			soon()
		case err := <-signs.errors:
			w.cfg.Logger.Warn("watching the configuration file failed", "err", err)
			soon()
		case <-next.C:
			signs.renew()
			waiting = w.look()
			next.Reset(w.pause(waiting))
		}
	}
}

// pause is how long to wait for the next look without any sign.
func (w *Watcher) pause(suspicious bool) time.Duration {
	if suspicious {
		return w.cfg.Settle
	}
	return w.cfg.Resync
}
