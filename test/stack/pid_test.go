//go:build linux

package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func startSleep(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := spawn(cmd, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

func TestStopEndsTheProcessOfAPidFile(t *testing.T) {
	t.Parallel()
	cmd := startSleep(t)
	p, err := pidOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sleep.pid")
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	again, err := readPid(file)
	if err != nil || again != p {
		t.Fatalf("read %v, %v, want %v", again, err, p)
	}
	if err := again.stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if p.alive() {
		t.Error("it is still alive")
	}
}

func TestStopSparesAProcessThatGotThePid(t *testing.T) {
	t.Parallel()
	cmd := startSleep(t)
	p, err := pidOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	earlier := pid{number: p.number, started: p.started - 1}
	if err := earlier.stop(100 * time.Millisecond); err != nil {
		t.Error(err)
	}
	if !p.alive() {
		t.Error("another process was ended")
	}
}

func TestPortsAreReservedOnce(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 50 {
		p, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.claim.Close() }()
		if seen[p.number] {
			t.Fatalf("port %d was given twice", p.number)
		}
		seen[p.number] = true
	}
}

func TestReadPidRefusesGarbage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.pid")
	if err := os.WriteFile(file, []byte("123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := readPid(file); err == nil {
		t.Errorf("read %v", p)
	}
}
