//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// agentName is the name under which this program runs again as the first process
// of a machine.
const agentName = "dynk8s-machine"

// Whatever program holds this package, a test or the demo, can be a machine's
// first process: so no further program has to be built and found.
func init() {
	if os.Args[0] == agentName {
		if err := serve(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve calls the process that wants the machine, says which machine this is,
// and does what it is told until that one hangs up or ends.
func serve(name, socket string) error {
	c, err := net.Dial("unix", socket) //nolint:gosec // the path is from the process that started this one
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, name); err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Agent", &Agent{children: map[int]*exec.Cmd{}}); err != nil {
		return err
	}
	server.ServeConn(c)
	return nil
}

// Agent is a machine's first process, as the caller sees it.
type Agent struct {
	mu       sync.Mutex
	children map[int]*exec.Cmd // machines of this one
}

// Nothing is an empty answer.
type Nothing struct{}

// Mount gives the machine its files and its name.
func (*Agent) Mount(s Settings, _ *Nothing) error {
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if s.Memory == "" {
		return s.mountFirst()
	}
	return s.mountNext()
}

// Run runs a command to its end.
func (*Agent) Run(c Command, r *Result) error {
	// A file and no pipe: a daemon that the command leaves behind may hold it.
	out, err := os.CreateTemp("/run", "output-")
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if err := os.Remove(out.Name()); err != nil {
		return err
	}
	cmd := c.command(out)
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	r.Code = cmd.ProcessState.ExitCode()
	size, err := out.Seek(0, 1)
	if err != nil {
		return err
	}
	r.Output = make([]byte, size)
	_, err = out.ReadAt(r.Output, 0)
	if size == 0 {
		return nil
	}
	return err
}

// Launch starts a command that goes on, with its output in a log.
func (*Agent) Launch(c Command, _ *Nothing) error {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := c.command(log)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// Write writes a file and the folders above it.
func (*Agent) Write(f File, _ *Nothing) error { return f.write("/") }

// Forward listens and joins each connection with one to a unix socket.
func (*Agent) Forward(f Forwarding, _ *Nothing) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if f.Device == "" {
			return nil
		}
		controlErr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, f.Device)
		})
		return errors.Join(controlErr, err)
	}}
	l, err := config.Listen(context.Background(), "tcp", f.Address)
	if err != nil {
		return err
	}
	go Forward(l, "unix", f.Socket)
	return nil
}

// Spawn starts the first process of another machine and answers its process id.
func (a *Agent) Spawn(o Spawning, pid *int) error {
	cmd := agentCommand(o.Name, o.Socket)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: ownNamespaces, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	*pid = cmd.Process.Pid
	a.mu.Lock()
	a.children[*pid] = cmd
	a.mu.Unlock()
	return nil
}

// Await waits until a machine has ended with all its processes, by force if it
// does not by itself.
func (a *Agent) Await(pid int, _ *Nothing) error {
	a.mu.Lock()
	cmd := a.children[pid]
	delete(a.children, pid)
	a.mu.Unlock()
	if cmd == nil {
		return fmt.Errorf("process %d is no machine of this one", pid)
	}
	defer killLater(cmd.Process)()
	_ = cmd.Wait() // how it ended does not matter
	return nil
}

const ownNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

func agentCommand(name, socket string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{agentName, name, socket}
	return cmd
}

func (c Command) command(out *os.File) *exec.Cmd {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, "/"
	for _, e := range c.Env { // the machine's own PATH, not that of this program
		if path, ok := cutPath(e); ok && filepath.Base(c.Args[0]) == c.Args[0] {
			cmd.Path, cmd.Err = look(path, c.Args[0])
		}
	}
	return cmd
}
