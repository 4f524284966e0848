//go:build linux

// Package daemon builds the program and runs it as a process, as an operator
// would, for tests and demonstrations.
package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"dynk8s.du5t1n.me/provisioner/test/internal/child"
	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// Build builds the program into dir and returns its path. A race build finds
// data races and ends with exit code 66 when it found one.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	root, err := parts.Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "dynk8s-provisioner")
	args := []string{"build", "-C", root, "-o", program}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/dynk8s-provisioner")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return program, nil
}

// Options say how one daemon runs.
type Options struct {
	// Program is what Build returned.
	Program string
	// Dir gets the configuration and the log, under names that begin with Name.
	Dir, Name string
	// Config is the configuration file's content. Its addresses should have
	// port 0.
	Config string
	// ConfigPath is a configuration file that is there already, used instead of
	// Config.
	ConfigPath string
	// Env is the whole environment.
	Env []string
	// TLS has the artifact port serve TLS, with a certificate of its own.
	TLS bool
	// Names are further names in that certificate.
	Names []string
}

// Daemon is a running process.
type Daemon struct {
	options    Options
	cmd        *exec.Cmd
	exited     chan struct{}
	config     string
	log        string
	logStart   int64
	artifacts  string
	operations string
	client     *http.Client // of the artifact port
	ca         string       // path
}

// Start starts a daemon and returns once it listens; see Ready.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	d := &Daemon{
		options: o,
		config:  filepath.Join(o.Dir, o.Name+".yaml"),
		log:     filepath.Join(o.Dir, o.Name+".log"),
		exited:  make(chan struct{}),
		client:  http.DefaultClient,
	}
	scheme := "http"
	env := o.Env
	if o.TLS {
		tls, err := newCertificate(filepath.Join(o.Dir, o.Name), o.Names)
		if err != nil {
			return nil, err
		}
		d.ca = tls.caFile
		scheme, d.client, env = "https", tls.client(), append(slices.Clone(env), tls.env()...)
	}
	if o.ConfigPath != "" {
		d.config = o.ConfigPath
	} else if err := os.WriteFile(d.config, []byte(o.Config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	if d.logStart, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(o.Program, "run", "--config", d.config)
	d.cmd.Env = env
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := child.Start(d.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = d.cmd.Wait() // how it ended is in ProcessState
		close(d.exited)
	}()
	return d, d.awaitAddresses(ctx, scheme)
}

// awaitAddresses reads from the log which ports the daemon was given.
func (d *Daemon) awaitAddresses(ctx context.Context, scheme string) error {
	for {
		content, err := d.Log()
		if err != nil {
			return err
		}
		for line := range bytes.Lines(content) {
			var entry struct{ Msg, Artifacts, Operations string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
				d.artifacts, d.operations = scheme+"://"+entry.Artifacts, "http://"+entry.Operations
				return nil
			}
		}
		select {
		case <-d.exited:
			return fmt.Errorf("the daemon ended: %s\n%s", d.cmd.ProcessState, content)
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not listen: %w\n%s", ctx.Err(), content)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Log returns what this process has logged, JSON lines.
func (d *Daemon) Log() ([]byte, error) {
	f, err := os.Open(d.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(d.logStart, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// Options are what the daemon was started with: the same again starts it anew.
func (d *Daemon) Options() Options { return d.options }

// LogFile is the path of the log.
func (d *Daemon) LogFile() string { return d.log }

// ConfigFile is the path of the configuration, which may be rewritten.
func (d *Daemon) ConfigFile() string { return d.config }

// ArtifactsURL is the base URL of the artifact port.
func (d *Daemon) ArtifactsURL() string { return d.artifacts }

// OperationsURL is the base URL of health, readiness and metrics.
func (d *Daemon) OperationsURL() string { return d.operations }

// Ready returns nil once /readyz says so.
func (d *Daemon) Ready(ctx context.Context) error {
	var last error
	for {
		code, body, err := Get(ctx, d.operations+"/readyz")
		switch {
		case err != nil:
			last = err
		case code == http.StatusOK:
			return nil
		default:
			last = fmt.Errorf("%d: %s", code, bytes.TrimSpace(body))
		}
		select {
		case <-d.exited:
			return fmt.Errorf("the daemon ended: %s", d.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not get ready: %w", last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Get fetches a URL and returns status and body.
func Get(ctx context.Context, url string) (int, []byte, error) {
	return get(ctx, http.DefaultClient, url, nil)
}

// Fetch fetches a path of the artifact port, with an encoded identity document
// as proof, or without one when it is empty.
func (d *Daemon) Fetch(ctx context.Context, path, document string) (int, []byte, error) {
	header := http.Header{}
	if document != "" {
		header.Set("Authorization", "Instance-Identity "+document)
	}
	return get(ctx, d.client, d.artifacts+path, header)
}

func get(ctx context.Context, client *http.Client, url string, header http.Header) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end below
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// CAFile is the path of the CA that made the artifact port's certificate, when
// that serves TLS.
func (d *Daemon) CAFile() string { return d.ca }

// Client is an HTTP client that trusts the artifact port's certificate.
func (d *Daemon) Client() *http.Client { return d.client }

// Running reports whether the process has not ended.
func (d *Daemon) Running() bool {
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill() // it may have ended already
	<-d.exited
}

// Stop asks the process to end with SIGTERM, waits for it, and returns its exit
// code. When ctx ends first the process is killed.
func (d *Daemon) Stop(ctx context.Context) (int, error) {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-d.exited:
		return d.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		d.Kill()
		return 0, fmt.Errorf("the daemon did not end by itself: %w", ctx.Err())
	}
}
