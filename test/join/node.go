//go:build linux

package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"dynk8s.du5t1n.me/provisioner/test/internal/machine"
)

// Node is an instance that joins. Set the fields, then call Join once.
type Node struct {
	// Dir is where the logs go: join.log, kubelet.log, fakecri.log, node.log. It
	// must not lie below /etc, /var, /usr or /run.
	Dir string
	// Programs is the folder of kubeadm, kubelet and fakecri.
	Programs string
	// Discovery is the discovery kubeconfig, as served.
	Discovery []byte
	// JoinConfiguration is the join configuration, as served.
	JoinConfiguration []byte
	// APIServer is host:port under which this machine reaches the API server.
	// Empty: the server that the discovery kubeconfig names.
	APIServer string

	init     *exec.Cmd
	lifeline io.Closer // the node's first process ends when this is closed
	relay    *machine.Relay
}

// Join runs `kubeadm join` to its end and returns its output, also beside an
// error. The kubelet goes on until Stop, or until this process ends.
func (n *Node) Join(ctx context.Context) (log string, err error) {
	s, err := n.spec()
	if err != nil {
		return "", err
	}
	if n.relay, err = machine.NewRelay(); err != nil {
		return "", err
	}
	var result *os.File
	if s.RelaySocket, err = n.relay.Add("api", n.upstream(s)); err == nil {
		result, err = n.launch(s)
	}
	if err == nil {
		err = n.await(ctx, result)
	}
	output, readErr := os.ReadFile(n.logFile(joinLog))
	if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
		err = errors.Join(err, readErr)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("node %s: %w", s.Name, err), n.Stop())
	}
	return string(output), err
}

func (n *Node) spec() (spec, error) {
	dir, err := filepath.Abs(n.Dir)
	if err != nil {
		return spec{}, err
	}
	n.Dir = dir
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return spec{}, err
	}
	s, err := readArtifacts(n.Discovery, n.JoinConfiguration)
	s.Dir, s.Programs = dir, n.Programs
	return s, err
}

func (n *Node) upstream(s spec) string {
	if n.APIServer != "" {
		return n.APIServer
	}
	return net.JoinHostPort(s.ServerHost, s.ServerPort)
}

// launch starts the node's first process: this same program under another
// name, see init.go. The returned pipe gets its result.
func (n *Node) launch(s spec) (result *os.File, err error) {
	result, resultOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = resultOut.Close() }() // the child has its own
	output, err := os.OpenFile(n.logFile("node.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()

	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{initName}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{resultOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setpgid:     true,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("no namespaces of one's own on this machine (unprivileged user namespaces must be allowed): %w", err)
	}
	n.init, n.lifeline = cmd, stdin
	return result, json.NewEncoder(stdin).Encode(s)
}

// await waits for the first process to say how the join went.
func (n *Node) await(ctx context.Context, result *os.File) error {
	defer func() { _ = result.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = result.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var said outcome
	if err := json.NewDecoder(result).Decode(&said); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("its first process ended, see %s: %w", n.logFile("node.log"), err)
	}
	if said.Error != "" {
		return errors.New(said.Error)
	}
	return nil
}

// Stop ends all processes of the node, as when an instance loses power.
func (n *Node) Stop() error {
	if n.relay != nil {
		n.relay.Stop()
	}
	if n.init == nil {
		return nil
	}
	_ = n.lifeline.Close()
	kill := time.AfterFunc(5*time.Second, func() { _ = n.init.Process.Kill() })
	defer kill.Stop()
	err := n.init.Wait() // returns after all other processes of the namespace have ended
	n.init = nil
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// KubeletLog is the path of the kubelet's log.
func (n *Node) KubeletLog() string { return n.logFile(kubeletLog) }

func (n *Node) logFile(name string) string { return filepath.Join(n.Dir, name) }
