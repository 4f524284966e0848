//go:build linux

package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// state is what another process must know of a stack to find and stop it.
type state struct {
	Programs   string    // folder of the programs from the control plane's module
	StandIn    string    // folder of the virtual environment
	Kubeconfig string    // of somebody else's cluster; empty: the stack has its own
	Ports      ports     // on 127.0.0.1
	Path       EventPath // the one that Env names
}

type ports struct{ Etcd, EtcdPeer, APIServer, ControllerManager, Ministack, Moto int }

func (p *ports) reserve() (release func(), err error) {
	return reservePorts(&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.ControllerManager, &p.Ministack, &p.Moto)
}

// stateFile also marks a folder as a stack's own.
const stateFile = "stack.json"

func (st state) write(dir string) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stateFile), b, 0o600)
}

func readState(dir string) (st state, err error) {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(b, &st)
}

// prepareDir makes the run folder, empty but for the marker.
func (s *Stack) prepareDir() (err error) {
	if s.temporary {
		s.dir, err = os.MkdirTemp("", "dynk8s-stack-")
		return err
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if err := refuseForeign(s.dir); err != nil {
		return err
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	return os.MkdirAll(s.dir, 0o700)
}

// refuseForeign returns an error unless dir may be emptied for a new stack.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("%s is neither empty nor the folder of a stack: name another one", dir)
	}
	running, err := Open(dir)
	if err != nil {
		return err
	}
	if running.Running() {
		return fmt.Errorf("a stack runs in %s already: stop it first", dir)
	}
	return nil
}

// clearDir leaves logs and the marker. Keys and data are of no use without the
// processes.
func (s *Stack) clearDir() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == stateFile || filepath.Ext(e.Name()) == ".log" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
