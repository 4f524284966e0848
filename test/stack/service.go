//go:build linux

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// service is one program of the stack: its command line, its log and, while it
// runs, its process.
type service struct {
	name     string
	dir      string // of the log and the pid file
	detached bool
	env      []string // added to the environment
	args     []string // the program first
	// ready returns nil once the service answers.
	ready   func(ctx context.Context) error
	timeout time.Duration // of becoming ready

	mu     sync.Mutex
	exited chan struct{} // closed at the end of a process this one started
}

// stopGrace is how long a program may take to end by itself. An API server
// takes longer as long as somebody watches, and nothing here is worth waiting
// for.
const stopGrace = 2 * time.Second

func (s *service) logFile() string { return filepath.Join(s.dir, s.name+".log") }
func (s *service) pidFile() string { return filepath.Join(s.dir, s.name+".pid") }

// start starts the program and returns once it answers.
func (s *service) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	exited, err := s.launch()
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.awaitReady(ctx, exited); err != nil {
		return fmt.Errorf("%s does not get ready: %w; the end of %s:\n%s", s.name, err, s.logFile(), logTail(s.logFile()))
	}
	return nil
}

func (s *service) launch() (exited chan struct{}, err error) {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the program has its own descriptor
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), s.env...)
	if err := spawn(cmd, s.detached); err != nil {
		return nil, err
	}
	exited = make(chan struct{})
	s.exited = exited
	p, err := pidOf(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	if err != nil {
		return nil, err
	}
	return exited, p.write(s.pidFile())
}

func (s *service) awaitReady(ctx context.Context, exited <-chan struct{}) error {
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("it ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the program, also one that another process started.
func (s *service) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := readPid(s.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.stop(stopGrace); err != nil {
		return fmt.Errorf("stopping %s: %w", s.name, err)
	}
	if s.exited != nil {
		<-s.exited
	}
	return os.Remove(s.pidFile())
}

// running returns the process, and false when the service does not run.
func (s *service) running() (pid, bool) {
	p, err := readPid(s.pidFile())
	return p, err == nil && p.alive()
}

func logTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
