package host

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Folder is a folder that files with secrets go into.
type Folder struct {
	path string
	root *os.Root
}

// OpenFolder opens a folder, and makes it first, for its owner only, if it is not
// there. A symbolic link is refused, and so is a folder into which others may
// write: they could put something else in the files' place.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at the folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no folder, or a symbolic link to one", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("others may write into %s (mode %#o): choose another folder, or chmod go-w it", path, info.Mode().Perm())
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	// Whoever owns the parent may have changed it meanwhile.
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s changed meanwhile", path), err, root.Close())
	}
	return &Folder{path: path, root: root}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// marker is a comment in the first two lines of every file that is written for a
// host. The first line of cloud-init's user data is taken.
func marker(host string) string {
	return "# Made by dynk8s-provisioner for host " + host + ". Secret.\n"
}

// Check returns an error that names the first of the files that is there and was
// not written here for the host.
func (f *Folder) Check(host string, names ...string) error {
	for _, name := range names {
		ours, err := f.ours(host, name)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", f.path, name, err)
		}
		if !ours {
			return fmt.Errorf("%s/%s is there and was not made for host %s: --force replaces it", f.path, name, host)
		}
	}
	return nil
}

// ours is true for what is not there.
func (f *Folder) ours(host, name string) (bool, error) {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // only read
	lines := bufio.NewReader(io.LimitReader(file, 1024))
	for range 2 {
		line, err := lines.ReadString('\n')
		if line == marker(host) {
			return true, nil
		}
		if err != nil {
			break
		}
	}
	return false, nil
}

// Write writes a file for its owner only. Whoever reads it sees the old file or
// the new one, whole; a symbolic link in its place is replaced, not followed.
func (f *Folder) Write(name string, content []byte) (err error) {
	temporary := "." + name + "." + strings.ToLower(rand.Text())
	file, err := f.root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", name, errors.Join(err, f.root.Remove(temporary)))
		}
	}()
	_, err = io.Copy(file, bytes.NewReader(content))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f.root.Rename(temporary, name)
}
