//go:build linux

package stack

import (
	"os/exec"
	"syscall"

	"dynk8s.du5t1n.me/provisioner/test/internal/child"
)

// spawn starts a command. Unless it is detached it does not outlive this
// process, and is in a group of its own: an interrupt at the terminal reaches
// the test first, which stops its stack in order.
func spawn(cmd *exec.Cmd, detached bool) error {
	if detached {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	return child.Start(cmd)
}
