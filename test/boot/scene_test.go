//go:build linux

package boot

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/test/keys"
)

// patience is how long one step may take on a busy machine.
const patience = 90 * time.Second

// scene is an instance and the key that it holds.
type scene struct {
	t   *testing.T
	ctx context.Context
	*Instance
	key keys.Key
}

// newScene launches an instance, with a key for it, and boots it.
func newScene(t *testing.T, l Launching) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &scene{t: t, ctx: ctx}
	_, err := shared.AddKey(ctx)
	must(t, err)
	s.Instance, err = shared.Launch(ctx, l)
	must(t, err)
	s.eventually("provisioned", func() error {
		s.key, err = shared.KeyOf(ctx, s.ID)
		return err
	})
	must(t, s.PowerOn(ctx))
	return s
}

// joins runs the script, which must end with the code and say this. It must
// never say a secret.
func (s *scene) joins(want int, says string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	journal, code, err := s.Join(ctx)
	must(s.t, err)
	if code != want || !strings.Contains(journal, says) {
		s.t.Fatalf("the script ends with code %d, want %d and a line with %q:\n%s", code, want, says, journal)
	}
	if strings.Contains(journal, s.key.PrivateKey) || token.MatchString(journal) {
		s.t.Error("the journal holds a secret")
	}
}

// token matches a bootstrap token.
var token = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// says runs a shell command on the instance, which must succeed.
func (s *scene) says(command string) string {
	s.t.Helper()
	said, code, err := s.Run(s.ctx, "sh", "-c", command)
	must(s.t, err)
	if code != 0 {
		s.t.Fatalf("%s: code %d: %s", command, code, said)
	}
	return said
}

// reaches checks whether the API server can be reached.
func (s *scene) reaches(want bool, when string) {
	s.t.Helper()
	got, err := s.ReachesAPIServer(s.ctx)
	must(s.t, err)
	if got != want {
		s.t.Errorf("%s: the API server can be reached: %v, want %v\n%s", when, got, want, s.says("ip route; wg show"))
	}
}

// absent checks that files are not there.
func (s *scene) absent(paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		if _, code, err := s.Run(s.ctx, "test", "-e", path); err != nil || code == 0 {
			s.t.Errorf("%s is there (%v)", path, err)
		}
	}
}

// ready waits until the Node is Ready and returns it.
func (s *scene) ready() (n *corev1.Node) {
	s.t.Helper()
	s.eventually("the Node is Ready", func() (err error) {
		if n, err = s.node(); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})
	return n
}

func (s *scene) node() (*corev1.Node, error) {
	return shared.Client.CoreV1().Nodes().Get(s.ctx, string(s.ID), metav1.GetOptions{})
}

// takenBack returns nil when nothing of the instance is left in the cluster.
func (s *scene) takenBack() error {
	if _, err := s.node(); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Node is there (%w)", err)
	}
	if err := s.noToken(); err != nil {
		return err
	}
	held, err := keys.ByHolder(s.ctx, shared.Client, Namespace)
	if err == nil && len(held[s.ID]) > 0 {
		err = errors.New("it holds a key")
	}
	return err
}

func (s *scene) noToken() error {
	tokens, err := keys.Tokens(s.ctx, shared.Client, s.ID)
	if err == nil && len(tokens) > 0 {
		err = errors.New("it has a bootstrap token")
	}
	return err
}

func (s *scene) eventually(what string, f func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
