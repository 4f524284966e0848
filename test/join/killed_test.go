//go:build linux

package join_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/test/join"
	"dynk8s.du5t1n.me/provisioner/test/stack"
)

// victimDir, in the environment, makes TestVictim the program that is killed.
const victimDir = "DYNK8S_TEST_VICTIM_DIR"

const victimIsUp = "victim is up"

// TestKillLeavesNothingRunning kills a program that has a stack and a node, as
// hard as it goes.
func TestKillLeavesNothingRunning(t *testing.T) {
	dir := t.TempDir()
	victim := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.v")
	victim.Env = append(os.Environ(), victimDir+"="+dir, "TMPDIR="+dir)
	victim.Stderr = os.Stderr
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
	// etcd, API server, controller manager, ministack, moto; init, fakecri, kubelet.
	if n := len(processes(t, dir)); up && n < 9 { // and the victim itself
		t.Errorf("only %d processes are found, so this test proves nothing", n)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = victim.Wait() // it was killed
	if !up {
		t.Fatal("the victim did not come up")
	}
	deadline := time.Now().Add(10 * time.Second)
	for left := processes(t, dir); len(left) > 0; left = processes(t, dir) {
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
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
// the program that TestKillLeavesNothingRunning kills.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victimDir)
	if dir == "" {
		return
	}
	ctx := context.Background()
	s, err := stack.Start(ctx, stack.Options{Dir: filepath.Join(dir, "stack"), Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	kube := client(t, s)
	n := &join.Node{
		Dir: filepath.Join(dir, "node"), Programs: s.Programs(), Discovery: clusterInfo(ctx, t, kube),
		JoinConfiguration: fmt.Appendf(nil, joinConfiguration, createToken(ctx, t, kube)),
	}
	if log, err := n.Join(ctx); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	fmt.Println(victimIsUp)
	select {} // until it is killed
}
