//go:build linux

// Package child starts processes that do not outlive this one.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

type request struct {
	cmd    *exec.Cmd
	result chan<- error
}

// PR_SET_PDEATHSIG means the death of the parent's *thread*, and Go ends
// threads as it likes. So one goroutine, locked to its thread for the life of
// this process, starts all children.
var requests = func() chan<- request {
	requests := make(chan request)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread lives as long as the process
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
}()

// Start starts a command, in a process group of its own, whose process the
// kernel kills when this process ends, also by SIGKILL.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error)
	requests <- request{cmd, result}
	return <-result
}
