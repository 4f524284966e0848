//go:build linux

package stack

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawn starts a command. Unless it is detached the kernel kills it when this
// process ends, also by SIGKILL, so that a killed test leaves nothing running.
//
// PR_SET_PDEATHSIG means the death of the parent's *thread*, and Go ends
// threads as it likes. So one goroutine, locked to its thread for the life of
// the process, starts all of them.
func spawn(cmd *exec.Cmd, detached bool) error {
	if detached {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	// A group of its own: an interrupt at the terminal reaches the test first,
	// which stops its stack in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	spawns <- spawnRequest{cmd, result}
	return <-result
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

var spawns = func() chan<- spawnRequest {
	requests := make(chan spawnRequest)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread lives as long as the process
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
}()
