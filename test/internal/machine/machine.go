//go:build linux

package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Machine is a set of namespaces and its first process.
type Machine struct {
	// PID is the first process's id, as the parent machine sees it.
	PID int

	settings Settings
	parent   *Machine // nil: the first
	cmd      *exec.Cmd
	client   *rpc.Client
	relay    *Relay
	calls    *calls
}

// Start starts a machine in a new user namespace. Others join it by Spawn.
func Start(ctx context.Context, s Settings) (_ *Machine, err error) {
	m := &Machine{settings: s}
	if m.relay, err = NewRelay(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("machine %s: %w", s.Name, err), m.Stop())
		}
	}()
	if m.settings.Dir, err = filepath.Abs(s.Dir); err != nil {
		return nil, err
	}
	if m.calls, err = awaitCalls(m.relay); err != nil {
		return nil, err
	}
	if err := m.launch(); err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		return nil, err
	}
	return m, m.call(ctx, "Mount", m.settings, &Nothing{})
}

func (m *Machine) launch() error {
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	m.cmd = agentCommand(m.settings.Name, m.calls.address())
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | ownNamespaces,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setpgid:     true,
	}
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		return fmt.Errorf("no namespaces of one's own on this machine (unprivileged user namespaces must be allowed): %w", err)
	}
	m.PID = m.cmd.Process.Pid
	return nil
}

// Dir is the folder for logs.
func (m *Machine) Dir() string { return m.settings.Dir }

func (m *Machine) logFile() string { return filepath.Join(m.settings.Dir, m.settings.Name+".log") }

// Spawn starts another machine beside m, in the same user namespace. One that
// was stopped and has the same name keeps its disk.
func (m *Machine) Spawn(ctx context.Context, s Settings) (*Machine, error) {
	s.Dir = m.settings.Dir
	s.Memory = filepath.Join(s.Dir, "memory")
	child := &Machine{settings: s, parent: m, calls: m.calls}
	err := m.call(ctx, "Spawn", Spawning{Name: s.Name, Socket: m.calls.address()}, &child.PID)
	if err == nil {
		err = child.connect(ctx)
	}
	if err == nil {
		err = child.call(ctx, "Mount", child.settings, &Nothing{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("machine %s: %w", s.Name, err), child.Stop())
	}
	return child, nil
}

func (m *Machine) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := m.calls.from(ctx, m.settings.Name)
	if err != nil {
		return fmt.Errorf("its first process does not call, see %s: %w", m.logFile(), err)
	}
	m.client = rpc.NewClient(c)
	return nil
}

// call has the first process do something. What it began goes on when ctx ends
// first, until the machine is stopped.
func (m *Machine) call(ctx context.Context, method string, args, reply any) error {
	done := m.client.Go("Agent."+method, args, reply, make(chan *rpc.Call, 1)).Done
	select {
	case c := <-done:
		return c.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run runs a command to its end. A code other than 0 is no error.
func (m *Machine) Run(ctx context.Context, c Command) (Result, error) {
	r := &Result{} // not shared with a call that goes on
	if err := m.call(ctx, "Run", c, r); err != nil {
		return Result{}, fmt.Errorf("%s: %s: %w", m.settings.Name, strings.Join(c.Args, " "), err)
	}
	return *r, nil
}

// Launch starts a command that goes on until it, or the machine, ends.
func (m *Machine) Launch(ctx context.Context, c Command) error {
	return m.call(ctx, "Launch", c, &Nothing{})
}

// Write writes a file.
func (m *Machine) Write(ctx context.Context, f File) error {
	return m.call(ctx, "Write", f, &Nothing{})
}

// Forward leads connections to a TCP address of the machine to a unix socket.
func (m *Machine) Forward(ctx context.Context, f Forwarding) error {
	return m.call(ctx, "Forward", f, &Nothing{})
}

// Stop ends all processes of the machine at once, and of those spawned by it,
// as when the power is cut.
func (m *Machine) Stop() error {
	if m.client != nil {
		_ = m.client.Close() // the first process ends at that, and all others with it
	}
	if m.parent != nil {
		if m.PID == 0 {
			return nil
		}
		pid := m.PID
		m.PID = 0
		return m.parent.call(context.Background(), "Await", pid, &Nothing{})
	}
	if m.cmd != nil {
		stopKilling := killLater(m.cmd.Process)
		_ = m.cmd.Wait() // how it ended does not matter
		stopKilling()
		m.cmd = nil
	}
	m.relay.Stop()
	return nil
}

// killLater kills a process that does not end by itself.
func killLater(p *os.Process) (stop func() bool) {
	return time.AfterFunc(5*time.Second, func() { _ = p.Kill() }).Stop
}

// calls are the connections of first processes, by the machines' names.
type calls struct {
	listener net.Listener

	mu      sync.Mutex
	arrived map[string]net.Conn
	changed chan struct{} // closed and replaced at each arrival
}

func awaitCalls(r *Relay) (*calls, error) {
	l, err := r.listen("machines")
	if err != nil {
		return nil, err
	}
	c := &calls{listener: l, arrived: map[string]net.Conn{}, changed: make(chan struct{})}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.introduce(conn)
		}
	}()
	return c, nil
}

func (c *calls) address() string { return c.listener.Addr().String() }

// introduce reads the name, which is all that comes before the first request.
func (c *calls) introduce(conn net.Conn) {
	name, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		_ = conn.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived[strings.TrimSuffix(name, "\n")] = conn
	close(c.changed)
	c.changed = make(chan struct{})
}

// from returns the connection of a machine's first process.
func (c *calls) from(ctx context.Context, name string) (net.Conn, error) {
	for {
		c.mu.Lock()
		conn, changed := c.arrived[name], c.changed
		delete(c.arrived, name)
		c.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
