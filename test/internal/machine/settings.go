//go:build linux

package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Settings say what a machine is.
type Settings struct {
	// Name is the host name, and that of its log.
	Name string
	// Dir is a folder that the machine may write to and that outlives it, for
	// logs. It must not lie below /etc, /var, /usr or /run. Machines of one Start
	// have the first one's.
	Dir string
	// Overlaid are the folders that the machine may write to, in memory, and which
	// folders below them it finds. The first machine of a Start has none; each has
	// an empty /run.
	Overlaid map[string][]string
	// Files are on the machine's disk at its first start; a machine that is
	// started again under the same name finds its disk as it was.
	Files []File

	// Memory is the folder in memory with everybody's disks. Spawn sets it.
	Memory string
}

// File is a file to write.
type File struct {
	Path string
	Data []byte
	Mode os.FileMode
}

// Command is a program to run.
type Command struct {
	Args []string
	Env  []string // NAME=VALUE, over this process's
	Log  string   // where the output of one that goes on is added
}

// Result is what a command said, on both outputs, and its exit code.
type Result struct {
	Output []byte
	Code   int
}

// Forwarding is a TCP address to listen on, and the unix socket to lead to.
type Forwarding struct {
	Address string
	// Device, when set, is the only interface by which it can be reached.
	Device string
	Socket string
}

// Spawning says how a machine's first process is started.
type Spawning struct{ Name, Socket string }

func (s Settings) mountFirst() error {
	if _, err := Freeze(s.Dir); err != nil {
		return err
	}
	return MountMemory("/run")
}

func (s Settings) mountNext() error {
	if err := mountProc(); err != nil {
		return err
	}
	if err := setReadOnly("/proc", 0, true); err != nil {
		return err
	}
	disk := filepath.Join(s.Memory, s.Name)
	if _, err := os.Stat(disk); os.IsNotExist(err) {
		for _, f := range s.Files {
			if err := f.write(disk); err != nil {
				return err
			}
		}
	}
	for dir, below := range s.Overlaid {
		if err := Overlay(dir, filepath.Join(disk, dir), below); err != nil {
			return err
		}
	}
	return MountMemory("/run")
}

func (f File) write(root string) error {
	path := filepath.Join(root, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as /etc is
		return err
	}
	if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
		return err
	}
	return os.Chmod(path, f.Mode) // whatever the umask
}

func cutPath(variable string) (string, bool) { return strings.CutPrefix(variable, "PATH=") }

// look finds a program in the folders of a PATH.
func look(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return name, fmt.Errorf("%s is not in %s: %w", name, path, exec.ErrNotFound)
}
