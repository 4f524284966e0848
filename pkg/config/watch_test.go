package config

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const deadline = 10 * time.Second

// watched is a Watcher on a file, and what it applied.
type watched struct {
	*Watcher
	path    string
	reloads chan Reload
	refuse  error
	log     bytes.Buffer
}

func newWatched(t *testing.T, path, content string) *watched {
	t.Helper()
	replaceFile(t, path, content)
	started, _, err := Load(path, nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{path: path, reloads: make(chan Reload, 100)}
	w.Watcher = NewWatcher(started, WatcherConfig{
		Path: path, Environ: inPod,
		Apply:      func(r Reload) error { w.reloads <- r; return w.refuse },
		Settle:     5 * time.Millisecond,
		Resync:     time.Hour, // the tests are about signs, or call look
		Registerer: prometheus.NewRegistry(),
		Logger:     slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	return w
}

// run starts the Watcher and ends it with the test.
func (w *watched) run(t *testing.T) {
	t.Helper()
	done := make(chan error)
	go func() { done <- w.Run(t.Context()) }()
	t.Cleanup(func() { // the test's context is done by now
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// next waits for a reload.
func (w *watched) next(t *testing.T) Reload {
	t.Helper()
	select {
	case r := <-w.reloads:
		return r
	case <-time.After(deadline):
		t.Fatal("no reload")
		return Reload{}
	}
}

func (w *watched) count(result string) float64 {
	return testutil.ToFloat64(w.Watcher.reloads.WithLabelValues(result))
}

// replaceFile writes like an editor: a new file, renamed over the old.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func withTTL(ttl string) string {
	return strings.Replace(minimal, "name: worker", "name: worker, bootstrapToken: {ttl: "+ttl+"}", 1)
}

func TestWatchRename(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	w.run(t)
	for _, ttl := range []string{"2h", "3h"} {
		replaceFile(t, w.path, withTTL(ttl))
		if r := w.next(t); short(r.Config.Profiles[0].BootstrapToken.TTL) != ttl {
			t.Errorf("ttl is %s, want %s", r.Config.Profiles[0].BootstrapToken.TTL, ttl)
		}
	}
}

func TestWatchWriteInPlace(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	w.run(t)
	if err := os.WriteFile(w.path, []byte(withTTL("2h")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.next(t)
}

func TestWatchMissingForAWhile(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	w.run(t)
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(deadline); w.count("failure") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a missing file is not reported")
		}
	}
	replaceFile(t, w.path, withTTL("2h"))
	w.next(t)
}

// A ConfigMap's files link to ..data/, which links to a folder with a time for
// its name; an update makes a new folder and swaps ..data by rename.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	swap := func(version, content string) {
		t.Helper()
		if err := errors.Join(
			os.Mkdir(filepath.Join(mount, version), 0o700),
			os.WriteFile(filepath.Join(mount, version, "config.yaml"), []byte(content), 0o600),
			os.Symlink(version, filepath.Join(mount, "..data_tmp")),
			os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")),
		); err != nil {
			t.Fatal(err)
		}
	}
	swap("..2026_1", minimal)
	path := filepath.Join(mount, "config.yaml")
	if err := os.Symlink("..data/config.yaml", path); err != nil {
		t.Fatal(err)
	}
	started, _, err := Load(path, nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{path: path, reloads: make(chan Reload, 100)}
	w.Watcher = NewWatcher(started, WatcherConfig{
		Path: path, Environ: inPod, Settle: 5 * time.Millisecond, Resync: time.Hour,
		Apply:  func(r Reload) error { w.reloads <- r; return nil },
		Logger: slog.New(slog.DiscardHandler),
	})
	w.run(t)
	for i, ttl := range []string{"2h", "3h"} {
		swap("..2026_2"+string(rune('a'+i)), withTTL(ttl))
		if err := os.RemoveAll(filepath.Join(mount, "..2026_1")); err != nil {
			t.Fatal(err)
		}
		w.next(t)
	}
}

// A file that changed between Load and Run is not overlooked.
func TestWatchLooksAtOnce(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	replaceFile(t, w.path, withTTL("2h"))
	w.run(t)
	w.next(t)
}

func TestReloadJoinsOldAndNew(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	replaceFile(t, w.path, withTTL("2h")+`
log: {level: debug, format: text}
kubernetes: {qps: 7}
artifacts: {identity: {accounts: []}}
`)
	w.look()
	r := w.next(t)
	if got := r.Config; got.Log.Level != "debug" || got.Log.Format != "json" || got.Kubernetes.QPS != 50 ||
		got.Profiles[0].BootstrapToken.TTL != 2*time.Hour {
		t.Errorf("in force would be %+v", got)
	}
	if want := []string{"kubernetes.qps", "log.format"}; !slices.Equal(r.RestartNeeded, want) {
		t.Errorf("restart needed for %q, want %q", r.RestartNeeded, want)
	}
	// Back to what the program started with: nothing waits any more.
	replaceFile(t, w.path, minimal)
	w.look()
	if r := w.next(t); len(r.RestartNeeded) > 0 || r.Config.Log.Level != "info" {
		t.Errorf("restart needed for %q", r.RestartNeeded)
	}
	if w.count("success") != 2 || w.count("failure") != 0 {
		t.Errorf("counted %v, %v", w.count("success"), w.count("failure"))
	}
	if !strings.Contains(w.log.String(), "changed settings need a restart") {
		t.Errorf("log: %s", w.log.String())
	}
}

func TestBadReload(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	bad := minimal + "log: {level: loud}"
	replaceFile(t, w.path, bad)
	if !w.look() || w.count("failure") != 0 {
		t.Error("a bad file is not given a second look")
	}
	for range 3 { // reported once, however often it is looked at
		if w.look() {
			t.Error("suspicious again")
		}
	}
	if w.count("failure") != 1 || !strings.Contains(w.log.String(), "log.level") {
		t.Errorf("counted %v, log: %s", w.count("failure"), w.log.String())
	}
	replaceFile(t, w.path, minimal+"# as it was\n")
	w.look()
	if len(w.reloads) > 0 || w.count("success") != 0 {
		t.Error("what is in force already was applied again")
	}
	replaceFile(t, w.path, withTTL("2h"))
	w.look()
	w.next(t)
}

func TestHalfWrittenFileIsNotReported(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	replaceFile(t, w.path, "")
	first := w.look()
	replaceFile(t, w.path, minimal[:40])
	second := w.look()
	replaceFile(t, w.path, withTTL("2h"))
	if third := w.look(); !first || !second || third {
		t.Errorf("suspicious: %v, %v, %v", first, second, third)
	}
	w.next(t)
	if w.count("failure") != 0 {
		t.Errorf("reported: %s", w.log.String())
	}
}

func TestRefusedReload(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	w.refuse = errors.New("no")
	replaceFile(t, w.path, withTTL("2h"))
	w.look()
	w.look()
	if len(w.reloads) != 1 || w.count("failure") != 1 || w.count("success") != 0 {
		t.Errorf("%d reloads, counted %v", len(w.reloads), w.count("failure"))
	}
}

// In a folder where something happens all the time, a change is seen still.
func TestBusyFolder(t *testing.T) {
	t.Parallel()
	w := newWatched(t, filepath.Join(t.TempDir(), "config.yaml"), minimal)
	replaceFile(t, w.path, withTTL("2h"))
	synctest.Test(t, func(t *testing.T) {
		w.cfg.Settle = time.Second
		events := make(chan fsnotify.Event)
		go w.loop(t.Context(), signs{events: events})
		synctest.Wait() // the look at once
		if len(w.reloads) != 1 {
			t.Fatal("no look at the start")
		}
		replaceFile(t, w.path, withTTL("3h"))
		for range 15 { // 1.5 s in steps shorter than Settle
			events <- fsnotify.Event{}
			time.Sleep(100 * time.Millisecond)
		}
		if len(w.reloads) != 2 {
			t.Error("events put the look off for ever")
		}
		replaceFile(t, w.path, withTTL("4h"))
		time.Sleep(2 * time.Hour) // no sign, but the time for a regular look
		if len(w.reloads) != 3 {
			t.Error("no look without a sign")
		}
	})
}
