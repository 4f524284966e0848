//go:build linux

package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// pid names one process for good: a number alone may belong to another process
// by the time it is used.
type pid struct {
	number int
	// started is the start time in /proc/<pid>/stat, in clock ticks since boot.
	started uint64
}

func pidOf(number int) (pid, error) {
	started, err := startTime(number)
	return pid{number, started}, err
}

// startTime reads field 22 of /proc/<pid>/stat, counted after the name, which
// may hold spaces and parentheses. A zombie counts as ended.
func startTime(number int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", number))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", number, len(fields))
	}
	if string(fields[0]) == "Z" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

func readPid(path string) (pid, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return pid{}, err
	}
	var p pid
	if _, err := fmt.Sscanf(string(b), "%d %d", &p.number, &p.started); err != nil {
		return pid{}, fmt.Errorf("pid file %s: %w", path, err)
	}
	return p, nil
}

func (p pid) write(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, "%d %d\n", p.number, p.started), 0o600)
}

func (p pid) alive() bool {
	started, err := startTime(p.number)
	return err == nil && started == p.started
}

// stop ends the process: it is asked first and killed after the grace period.
// That it is gone already is fine.
func (p pid) stop(grace time.Duration) error {
	// FindProcess holds a pidfd, so once alive has compared the start time the
	// signals reach this process or none.
	proc, err := os.FindProcess(p.number)
	if err != nil || !p.alive() {
		return nil //nolint:nilerr // no such process
	}
	defer func() { _ = proc.Release() }()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if p.gone(grace) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", p.number)
}

func (p pid) gone(within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !p.alive() {
			return true
		}
	}
	return !p.alive()
}
