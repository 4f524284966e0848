//go:build linux

package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"dynk8s.du5t1n.me/provisioner/test/parts"
)

// Options say how a stack is started. The zero value is right for tests.
type Options struct {
	// Dir is the run folder, for logs, keys and data. Empty: a temporary folder,
	// which Stop removes. A folder that is neither empty nor a stack's is
	// refused.
	Dir string
	// Detach lets the stack outlive this process; Open finds it again. Otherwise
	// its processes die with this one, however it ends.
	Detach bool
	// Kubeconfig names a cluster that is there already, for which no control plane
	// is built or started. Empty: the stack has its own.
	Kubeconfig string
	// Progress gets a line a step. Nil: silence.
	Progress io.Writer
}

// Stack is a control plane and a stand-in for AWS.
type Stack struct {
	dir       string
	temporary bool
	progress  io.Writer
	state     state
	release   func() // of the ports

	etcd, apiServer, controllerManager *service // nil with somebody else's cluster
	ministack, moto                    *service
	aws                                *clients
}

// Start builds what has to be built, starts a stack and returns once all of it
// answers. On an error nothing of it runs.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	s := &Stack{dir: o.Dir, temporary: o.Dir == "", progress: &lines{w: o.Progress}, release: func() {}}
	if o.Kubeconfig != "" {
		if s.state.Kubeconfig, err = filepath.Abs(o.Kubeconfig); err != nil {
			return nil, err
		}
	}
	if err := s.buildParts(ctx); err != nil {
		return nil, err
	}
	if err := s.prepareDir(); err != nil {
		return nil, err
	}
	if err := s.startAll(ctx, o.Detach); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the stack in %s: %w", s.dir, err), s.stopServices(), s.clearDir())
	}
	return s, nil
}

// buildParts builds both at once: one waits for the network while the other
// compiles.
func (s *Stack) buildParts(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	programs := parts.ControlPlane
	if !s.ownCluster() {
		programs = parts.NodePrograms
	}
	g.Go(func() (err error) {
		s.state.Programs, err = programs(gctx, s.progress)
		return err
	})
	g.Go(func() (err error) {
		s.state.StandIn, err = parts.AWSStandIn(gctx, s.progress)
		return err
	})
	return g.Wait()
}

func (s *Stack) startAll(ctx context.Context, detach bool) (err error) {
	begun := time.Now()
	if s.release, err = s.state.Ports.reserve(); err != nil {
		return err
	}
	if err := s.state.write(s.dir); err != nil { // before the first process: Open can stop it
		return err
	}
	s.wire(detach)
	g, gctx := errgroup.WithContext(ctx)
	if s.ownCluster() {
		g.Go(func() error { return s.startControlPlane(gctx) })
	}
	g.Go(func() error { return s.startAWS(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.progress, "stack is up after %s, logs in %s\n", // its last line, shown or not
		time.Since(begun).Round(100*time.Millisecond), s.dir)
	return s.state.write(s.dir)
}

// wire makes the services and clients of a stack whose ports are known.
func (s *Stack) wire(detach bool) {
	if s.ownCluster() {
		s.wireControlPlane(detach)
	}
	s.wireAWS(detach)
}

// Open returns the stack that another process started in dir. Its Stop ends
// that stack.
func Open(dir string) (*Stack, error) {
	s := &Stack{progress: io.Discard, release: func() {}}
	var err error
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if s.state, err = readState(s.dir); err != nil {
		return nil, err
	}
	s.wire(true)
	return s, nil
}

// Stop ends every process of the stack. The logs stay, unless the run folder
// was a temporary one.
func (s *Stack) Stop() error {
	err := s.stopServices()
	if err != nil {
		return err
	}
	if s.temporary {
		return os.RemoveAll(s.dir)
	}
	return s.clearDir()
}

func (s *Stack) stopServices() error {
	var g errgroup.Group
	for _, svc := range s.services() {
		g.Go(svc.stop)
	}
	err := g.Wait()
	s.release()
	return err
}

// ownCluster reports whether the stack has a control plane of its own.
func (s *Stack) ownCluster() bool { return s.state.Kubeconfig == "" }

// Dir is the run folder.
func (s *Stack) Dir() string { return s.dir }

// Programs is a folder with kubeadm, kubectl, kubelet and fakecri.
func (s *Stack) Programs() string { return s.state.Programs }

// Kubeconfig is the path of a cluster administrator's kubeconfig.
func (s *Stack) Kubeconfig() string {
	if !s.ownCluster() {
		return s.state.Kubeconfig
	}
	return filepath.Join(s.dir, "admin.conf")
}

// RESTConfig is the cluster administrator's client configuration, without a
// limit on the client's rate.
func (s *Stack) RESTConfig() (*rest.Config, error) { return restConfig(s.Kubeconfig()) }

func restConfig(kubeconfig string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	return c, nil
}
