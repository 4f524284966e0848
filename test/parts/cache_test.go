//go:build linux

package parts

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// counted is a part that counts its builds.
func counted(builds *atomic.Int32) part {
	return part{name: "thing", folder: "thing-v1", build: func(_ context.Context, dir string, _ *progress) error {
		builds.Add(1)
		return os.WriteFile(filepath.Join(dir, "program"), []byte("x"), 0o600)
	}}
}

func TestAPartIsBuiltOnceAlsoWhenManyAsk(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			dir, err := counted(&builds).ensure(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "program")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

func TestAFailedBuildLeavesNoPartAndIsGoneOnWith(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	pt := part{name: "thing", folder: "thing-v1", build: func(_ context.Context, dir string, _ *progress) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "first"), nil, 0o600), errors.New("interrupted"))
	}}
	dir, err := pt.ensure(t.Context(), nil)
	if err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a part lies in %s: %v", dir, err)
	}
	pt.build = func(_ context.Context, dir string, _ *progress) error {
		_, err := os.Stat(filepath.Join(dir, "first"))
		return err
	}
	if _, err := pt.ensure(t.Context(), nil); err != nil {
		t.Errorf("what was built before the interruption is lost: %v", err)
	}
}

func TestAPartThatDoesNotWorkAnyMoreIsBuiltAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var builds atomic.Int32
	pt := counted(&builds)
	pt.usable = func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "program"))
		return err == nil
	}
	for range 2 {
		dir, err := pt.ensure(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "program")); err != nil {
			t.Fatal(err)
		}
	}
	if n := builds.Load(); n != 2 {
		t.Errorf("it was built %d times, want 2", n)
	}
}

func TestTheHashTellsPinsApart(t *testing.T) {
	t.Parallel()
	if hash([]byte("ab"), []byte("c")) == hash([]byte("a"), []byte("bc")) {
		t.Error("two different pins have one hash")
	}
}

func TestTheVersionOfKubernetesComesFromTheModule(t *testing.T) {
	t.Parallel()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, "test", "controlplane", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version, err := kubernetesVersion(gomod)
	if err != nil || !strings.HasPrefix(version, "v1.") {
		t.Errorf("got %q, %v", version, err)
	}
	if flags := linkerFlags("v1.37.2"); !strings.Contains(flags, "version.gitMinor=37 ") {
		t.Errorf("the minor version is not stamped: %s", flags)
	}
}

func TestMissingPythonIsSaidWithItsMend(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := AWSStandIn(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install python3") {
		t.Errorf("got %v", err)
	}
}

func TestProgressSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	done := newProgress(&out, "thing").step("etcd %d/%d", 1, 7)
	done()
	done()
	if got := out.String(); strings.Count(got, "etcd 1/7") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestRequirementsNameNoIndex(t *testing.T) {
	t.Parallel()
	for _, line := range strings.Split(string(requirements), "\n") {
		if strings.Contains(line, "://") || strings.HasPrefix(line, "-") {
			t.Errorf("a place to install from is pinned: %q", line)
		}
	}
}
