package nodecertificate

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// start runs the Approver until the test ends, within a bubble.
func (w *world) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// add makes a request and tells the Approver, as the informer does.
func (w *world) add(t *testing.T, name string, r *recipe) {
	t.Helper()
	w.server.put(r.make(t, name))
	w.EventHandler().OnAdd(w.server.read(name), false)
}

func TestRunDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.add(t, "early", clientRecipe())
		w.start(t)
		w.add(t, "client", clientRecipe())
		w.add(t, "serving", servingRecipe())
		bad := clientRecipe()
		commonName("system:node:node-b")(bad)
		w.server.put(bad.make(t, "bad"))
		w.EventHandler().OnUpdate(w.server.read("bad"), w.server.read("bad"))
		synctest.Wait()
		wantApproved(t, w.server.read("early"))
		wantApproved(t, w.server.read("client"))
		wantApproved(t, w.server.read("serving"))
		wantDenied(t, w.server.read("bad"))
		w.wantCount(t, clientSigner, approved, 2)
		w.wantCount(t, clientSigner, denied, 1)
		w.wantCount(t, servingSigner, approved, 1)
	})
}

func TestTroubleIsRetried(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	for name, trouble := range map[string]func() error{
		"error": func() error { return busy },
		"panic": func() error { panic(busy) },
		"late":  func() error { return context.DeadlineExceeded },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				var asked atomic.Int32
				w.ledger.hook = func(string) error {
					if asked.Add(1) <= 3 {
						return trouble()
					}
					return nil
				}
				w.start(t)
				w.add(t, "csr-1", clientRecipe())
				synctest.Wait()
				wantCondition(t, w.server.read("csr-1"), "", "")
				w.wantCount(t, clientSigner, failed, 1)
				time.Sleep(minBackoff * (1 + 2 + 4))
				synctest.Wait()
				wantApproved(t, w.server.read("csr-1"))
				w.wantCount(t, clientSigner, failed, 3)
				w.wantCount(t, clientSigner, approved, 1)
				w.wantCount(t, clientSigner, denied, 0)
				if log := w.log.String(); strings.Count(log, "level=WARN") != 3 {
					t.Errorf("log: %s", log)
				}
			})
		})
	}
}

func TestBackoffIsBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var asked atomic.Int32
		w.ledger.hook = func(string) error {
			asked.Add(1)
			return errors.New("down")
		}
		w.start(t)
		w.add(t, "csr-1", servingRecipe())
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := asked.Load(); n < 100 || n > 150 {
			t.Errorf("asked %d times in an hour", n)
		}
		w.server.remove("csr-1")
		time.Sleep(maxBackoff)
		synctest.Wait()
		before := asked.Load()
		time.Sleep(time.Hour)
		if asked.Load() != before || w.queue.NumRequeues(item{name: "csr-1", signer: servingSigner, requestor: servingRecipe().username}) != 0 {
			t.Error("not forgotten")
		}
	})
}

func TestConflictIsRetriedInQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.server.hook = once("update", func() { w.server.put(w.server.read("csr-1")) })
		w.start(t)
		w.add(t, "csr-1", clientRecipe())
		synctest.Wait()
		wantCondition(t, w.server.read("csr-1"), "", "")
		time.Sleep(minBackoff)
		synctest.Wait()
		wantApproved(t, w.server.read("csr-1"))
		w.wantCount(t, clientSigner, failed, 0)
		if log := w.log.String(); strings.Count(log, "\n") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

func TestACallWithoutAnswerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.owners = &silent{Owners: w.ledger}
		w.start(t)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.add(t, name, clientRecipe())
		}
		time.Sleep(2*attemptTimeout + time.Second)
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			wantApproved(t, w.server.read(name))
		}
		w.wantCount(t, clientSigner, failed, workers)
	})
}

// silent does not answer as many times as there are workers.
type silent struct {
	Owners
	asked atomic.Int32
}

func (s *silent) OfToken(ctx context.Context, id string) (Subject, error) {
	if s.asked.Add(1) <= workers {
		<-ctx.Done()
		return Subject{}, ctx.Err()
	}
	return s.Owners.OfToken(ctx, id)
}

func TestRunStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		hold := make(chan struct{})
		w.server.hook = func(string) error {
			<-hold
			return nil
		}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			w.add(t, name, clientRecipe())
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		stop()
		close(hold)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if log := w.log.String(); log != "" { // an end is no trouble
			t.Errorf("log: %s", log)
		}
		w.wantCount(t, clientSigner, failed, 0)
	})
}
