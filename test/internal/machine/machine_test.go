//go:build linux

package machine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
	"dynk8s.du5t1n.me/provisioner/test/parts"
)

func TestMain(m *testing.M) {
	if err := parts.Debian(context.Background(), os.Stderr, "ip"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pair starts two machines that a cable joins; the second has a disk.
func pair(ctx context.Context, t *testing.T, dir string) (first, second *machine.Machine) {
	t.Helper()
	first, err := machine.Start(ctx, machine.Settings{Name: "first", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := first.Stop(); err != nil {
			t.Error(err)
		}
	})
	second = spawn(ctx, t, first)
	run(ctx, t, first, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", fmt.Sprint(second.PID))
	for m, address := range map[*machine.Machine]string{first: "192.0.2.1/24", second: "192.0.2.2/24"} {
		run(ctx, t, m, "ip", "address", "add", address, "dev", "cable")
		run(ctx, t, m, "ip", "link", "set", "cable", "up")
		run(ctx, t, m, "ip", "link", "set", "lo", "up")
	}
	return first, second
}

func spawn(ctx context.Context, t *testing.T, beside *machine.Machine) *machine.Machine {
	t.Helper()
	m, err := beside.Spawn(ctx, machine.Settings{
		Name: "second", Overlaid: map[string][]string{"/etc": {"made"}},
		Files: []machine.File{{Path: "/etc/made/given", Data: []byte("given"), Mode: 0o600}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(ctx context.Context, t *testing.T, m *machine.Machine, args ...string) string {
	t.Helper()
	r, err := m.Run(ctx, machine.Command{Args: args})
	if err != nil || r.Code != 0 {
		t.Fatalf("%v: code %d, %v\n%s", args, r.Code, err, r.Output)
	}
	return string(r.Output)
}

// A machine reaches another one by the cable only, and a port bound to a device
// by that device only.
func TestNetwork(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	first, second := pair(ctx, t, t.TempDir())
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = upstream.Close() }()
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			_ = c.Close()
		}
	}()
	relay, err := machine.NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Stop()
	socket, err := relay.Add("upstream", upstream.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for port, device := range map[string]string{"1001": "cable", "1002": "lo"} {
		if err := first.Forward(ctx, machine.Forwarding{Address: "192.0.2.1:" + port, Device: device, Socket: socket}); err != nil {
			t.Fatal(err)
		}
	}
	for port, want := range map[string]int{"1001": 0, "1002": 1} {
		r, err := second.Run(ctx, machine.Command{Args: []string{"bash", "-c", "grep -q hello </dev/tcp/192.0.2.1/" + port}})
		if err != nil || r.Code != want {
			t.Errorf("port %s: code %d, want %d, %v %s", port, r.Code, want, err, r.Output)
		}
	}
}

// A machine that is started again has its disk, and nothing else, and what it
// writes is not on the real machine.
func TestRestart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	first, second := pair(ctx, t, t.TempDir())
	run(ctx, t, second, "sh", "-c", "cat /etc/made/given && echo disk >/etc/made/kept && echo memory >/run/lost && hostname | grep -q second")
	if err := second.Launch(ctx, machine.Command{Args: []string{"sleep", "1000"}, Log: "/run/log"}); err != nil {
		t.Fatal(err)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	second = spawn(ctx, t, first)
	if got := run(ctx, t, second, "sh", "-c", "cat /etc/made/kept /etc/made/given; ls /run; ls -d /proc/[0-9]* | wc -l"); !strings.HasPrefix(got, "disk\ngiven") || strings.Contains(got, "lost") {
		t.Errorf("after a restart: %q", got)
	}
	if r, err := second.Run(ctx, machine.Command{Args: []string{"touch", "/x"}}); err != nil || r.Code == 0 {
		t.Errorf("the real machine's files can be written: %v", err)
	}
	if _, err := os.Stat("/etc/made"); err == nil {
		t.Error("the real machine's files were written")
	}
}

// victimDir, in the environment, makes TestVictim the program that ends badly.
const victimDir = "DYNK8S_TEST_MACHINE_VICTIM_DIR"

const victimIsUp = "victim is up"

// However a program ends, no process, namespace or interface of its machines
// stays. A namespace lives as long as a process in it, unless it is mounted.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*exec.Cmd) error{
		"killed":     func(c *exec.Cmd) error { return c.Process.Kill() },
		"terminated": func(c *exec.Cmd) error { return c.Process.Signal(syscall.SIGTERM) },
		"panicked":   func(c *exec.Cmd) error { return c.Process.Signal(syscall.SIGQUIT) }, // Go's runtime prints stacks and exits
	} {
		dir := t.TempDir()
		victim := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.v")
		victim.Env = append(os.Environ(), victimDir+"="+dir, "TMPDIR="+dir)
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		up := false
		for lines := bufio.NewScanner(out); !up && lines.Scan(); {
			up = strings.Contains(lines.Text(), victimIsUp)
		}
		if n := len(processes(t, dir)); n != 4 { // itself, two machines, one sleep
			t.Errorf("%s: %d processes are found, so this test proves nothing", name, n)
		}
		if err := end(victim); err != nil {
			t.Error(err)
		}
		_ = victim.Wait() // it did not end well
		deadline := time.Now().Add(10 * time.Second)
		for left := processes(t, dir); len(left) > 0; left = processes(t, dir) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: still running: %v", name, left)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if left := leftOnHost(t, dir); len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
}

// leftOnHost names what of a machine's is seen from outside of it: its cable, and
// mounts of its folder.
func leftOnHost(t *testing.T, dir string) (found []string) {
	t.Helper()
	if _, err := net.InterfaceByName("cable"); err == nil {
		found = append(found, "interface cable")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(dir)) {
		found = append(found, "a mount of "+dir)
	}
	return found
}

// processes returns the command lines of those whose environment names dir.
func processes(t *testing.T, dir string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(victimDir+"="+dir)) {
			continue // ended, somebody else's, or not ours
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
	}
	return found
}

// TestVictim is no test of its own: it passes at once unless it is told to be
// the program that TestNothingIsLeft ends.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victimDir)
	if dir == "" {
		return
	}
	ctx := context.Background()
	_, second := pair(ctx, t, dir)
	if err := second.Launch(ctx, machine.Command{Args: []string{"sleep", "1000"}, Log: "/run/log"}); err != nil {
		t.Fatal(err)
	}
	fmt.Println(victimIsUp)
	select {} // until it is ended
}
