//go:build linux

package join

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// initName is the name under which this program runs again as the first process
// of a node.
const initName = "dynk8s-node"

// resultFD is where the first process writes its outcome.
const resultFD = 3

// Whatever program holds this package, a test or the demo, can be a node's
// first process: so no further program has to be built and found.
func init() {
	if os.Args[0] == initName {
		if err := runNode(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

// runNode is the first process. It stays as long as its standard input is open,
// that is as long as the parent lives and wants the node, and returns only with
// an error.
func runNode() error {
	var s spec
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&s); err != nil {
		return fmt.Errorf("reading what to do: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
		os.Exit(0)
	}()
	var said outcome
	if err := s.bringUp(); err != nil {
		said.Error = err.Error()
	}
	result := os.NewFile(resultFD, "result")
	if err := json.NewEncoder(result).Encode(said); err != nil {
		return fmt.Errorf("saying how it went: %w", err)
	}
	_ = result.Close()
	select {}
}

func (s spec) bringUp() error {
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"file systems", s.mountAll},
		{"network", s.network},
		{"files", s.writeFiles},
		{"fake container runtime", s.startRuntime},
		{"kubeadm join", s.join},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}
