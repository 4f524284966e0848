//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"dynk8s.du5t1n.me/provisioner/test/stack"
)

func up(ctx context.Context, dir string, out io.Writer) error {
	s, err := stack.Open(dir)
	switch {
	case err == nil && s.Whole():
		_, err = fmt.Fprintf(out, "the stack is up already; its settings are in %s\n", envFile(dir))
		return err
	case err == nil: // parts of it died
		if err := s.Stop(); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if s, err = stack.Start(ctx, stack.Options{Dir: dir, Detach: true, Progress: out}); err != nil {
		return err
	}
	if err := os.WriteFile(envFile(dir), environment(s.Env()), 0o600); err != nil {
		return errors.Join(err, s.Stop())
	}
	_, err = fmt.Fprintf(out, "to use it: . %s\n", envFile(dir))
	return err
}

func down(dir string, out io.Writer) error {
	s, err := stack.Open(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && !s.Running() {
		_, err = fmt.Fprintln(out, "no stack is up")
		return err
	}
	if err != nil {
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	if err := os.Remove(envFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, err = fmt.Fprintf(out, "the stack is down; its logs are in %s\n", dir)
	return err
}

func status(dir string, out io.Writer) error {
	s, err := stack.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		_, err = fmt.Fprintln(out, "no stack is up")
		return err
	}
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PROGRAM\tPID\tMEMORY\tLOG") // Flush reports what fails
	for _, p := range s.Status() {
		pid := "not running"
		if p.PID != 0 {
			pid = fmt.Sprint(p.PID)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d MiB\t%s\n", p.Name, pid, p.RSS>>20, p.Log)
	}
	return table.Flush()
}

// envFile lies beside the run folder, which is emptied at every start.
func envFile(dir string) string { return dir + ".env" }

// environment renders a file for the shell to source.
func environment(env map[string]string) []byte {
	var b []byte
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = fmt.Appendf(b, "export %s=%s\n", name, quote(env[name]))
	}
	return b
}
