//go:build linux

package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// part is something that is built once into a folder of the cache.
type part struct {
	// name is what progress lines call it.
	name string
	// folder is the name of its folder in the cache; it holds the pins' hash.
	folder string
	// usable reports whether a folder found in the cache still works; nil means
	// it always does.
	usable func(dir string) bool
	// build fills dir, which may hold what an interrupted build left there.
	build func(ctx context.Context, dir string, p *progress) error
}

// ensure returns the part's folder, which it builds when it is not there.
func (pt part) ensure(ctx context.Context, w io.Writer) (string, error) {
	dir, err := pt.dir()
	if err != nil {
		return "", err
	}
	if pt.found(dir) {
		return dir, nil
	}
	p := newProgress(w, pt.name)
	unlock, err := lock(ctx, dir+".lock", p)
	if err != nil {
		return "", fmt.Errorf("locking the build of the %s: %w", pt.name, err)
	}
	defer unlock()
	if pt.found(dir) { // built while this process waited
		return dir, nil
	}
	return dir, pt.make(ctx, dir, p)
}

// dir is where the part is, or will be.
func (pt part) dir() (string, error) {
	root, err := cacheRoot()
	return filepath.Join(root, pt.folder), err
}

func (pt part) found(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && (pt.usable == nil || pt.usable(dir))
}

// make builds beside the final folder and renames, so that the final folder is
// always whole.
func (pt part) make(ctx context.Context, dir string, p *progress) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.MkdirAll(partial, 0o750); err != nil {
		return err
	}
	if err := pt.build(ctx, partial, p); err != nil {
		return fmt.Errorf("building the %s: %w", pt.name, err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	p.printf("ready in %s", dir)
	return nil
}

func cacheRoot() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for built parts: %w; set HOME or XDG_CACHE_HOME", err)
	}
	root := filepath.Join(base, "dynk8s")
	return root, os.MkdirAll(root, 0o750)
}

// lock takes an exclusive lock on a file, which the kernel gives back when the
// process ends, however it ends.
func lock(ctx context.Context, path string, p *progress) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	done := func() {}
	defer func() { done() }()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, err
		}
		if !waited {
			done = p.step("another process builds it, waiting")
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// hash digests what pins a part, together with the platform it is built for.
func hash(pins ...[]byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s/%s\n", runtime.GOOS, runtime.GOARCH)
	for _, pin := range pins {
		_, _ = fmt.Fprintf(h, "%d\n", len(pin)) // a hash never fails to write
		_, _ = h.Write(pin)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
