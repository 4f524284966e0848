package wireguardkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

func TestChooseIsAFreeKeyAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for i := range 10 {
		c.put(t, fmt.Sprintf("key-%d", i), nil)
	}
	first, err := c.Choose(t.Context(), instanceA, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Choose(t.Context(), instanceA, nil, nil)
	if err != nil || again.Name() != first.Name() {
		t.Errorf("%v and %v, %v", first, again, err)
	}
	except := map[string]bool{first.Name(): true}
	other, err := c.Choose(t.Context(), instanceA, nil, except)
	if err != nil || other.Name() == first.Name() || len(except) != 1 {
		t.Errorf("%v chosen, except %v, %v", other, except, err)
	}
}

func TestChooseNarrowsByTheSelector(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for i := range 10 {
		c.put(t, fmt.Sprintf("key-%d", i), func(s *corev1.Secret) {
			if i == 7 {
				s.Labels["site"] = "home"
			}
		})
	}
	selector, err := labels.Parse("site=home")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if key, err := c.Choose(t.Context(), instanceNumber(i), selector, nil); err != nil || key.Name() != "key-7" {
			t.Errorf("%v, %v", key, err)
		}
	}
	c.allocate(t, "key-7", instanceA)
	_, err = c.Choose(t.Context(), instanceB, selector, nil)
	wantError(t, err, ErrExhausted)
}

// unfit are keys that must never be given to instance A.
var unfit = []struct {
	name   string
	damage func(*corev1.Secret)
	want   error
	// chosen is false when Choose sees by the metadata alone that it is unfit.
	seen bool
}{
	{"without config", func(s *corev1.Secret) { s.Data = nil }, ErrUnusable, true},
	{"with an empty config", func(s *corev1.Secret) { s.Data[ConfigKey] = nil }, ErrUnusable, true},
	{"refused by usable", func(s *corev1.Secret) { s.Data[ConfigKey] = []byte("bad") }, ErrUnusable, true},
	{"not in the pool", func(s *corev1.Secret) { s.Labels = nil }, ErrUnusable, false},
	{"reserved by hand", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "reserved" }, ErrTaken, false},
	{"held by another", func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(instanceB) }, ErrTaken, false},
	{"lost by another", func(s *corev1.Secret) { s.Annotations = map[string]string{allocatedTo: string(instanceB)} }, ErrTaken, false},
	{"marked for another", func(s *corev1.Secret) { s.Annotations = map[string]string{handedOutTo: string(instanceB)} }, ErrTaken, false},
	{"labelled by hand, marked for another", func(s *corev1.Secret) {
		s.Labels[InstanceLabel] = string(instanceA)
		s.Annotations = map[string]string{handedOutTo: string(instanceB)}
	}, ErrTaken, false},
	{"marked with nonsense", func(s *corev1.Secret) { s.Annotations = map[string]string{handedOutTo: "nonsense"} }, ErrTaken, false},
}

func refuseBad(config []byte) error {
	if string(config) == "bad" {
		return errors.New("no address")
	}
	return nil
}

func TestUnfitKeysArePassedOver(t *testing.T) {
	t.Parallel()
	for _, tc := range unfit {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(refuseBad)
			c.put(t, "unfit", tc.damage)
			_, err := c.Choose(t.Context(), instanceA, nil, nil)
			wantError(t, err, ErrExhausted)
			if seen := c.client.Count("get") > 0; seen != tc.seen {
				t.Errorf("looked at it: %v", seen)
			}
			if warned := strings.Contains(c.log.String(), "passed over"); warned != tc.seen {
				t.Errorf("log: %s", &c.log)
			}
			wantError(t, c.Allocate(t.Context(), c.get(t, "unfit"), instanceA), tc.want)
			if _, err := c.HandOut(t.Context(), c.get(t, "unfit"), instanceA); err == nil {
				t.Error("handed out")
			}
			if n := c.client.Count("update"); n != 0 {
				t.Errorf("%d updates", n)
			}
			c.put(t, "fit", nil)
			if key, err := c.Choose(t.Context(), instanceA, nil, nil); err != nil || key.Name() != "fit" {
				t.Errorf("%v, %v", key, err)
			}
			if strings.Contains(c.log.String(), "PrivateKey") {
				t.Error("the log holds a private key")
			}
		})
	}
}

func TestKeyOfAnotherTypeIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "odd", func(s *corev1.Secret) { s.Type = "Opaque"; s.Labels[InstanceLabel] = "" })
	_, err := c.Choose(t.Context(), instanceA, nil, nil)
	wantError(t, err, ErrExhausted)
	wantError(t, c.Allocate(t.Context(), c.get(t, "odd"), instanceA), ErrUnusable)
	c.edit(t, "odd", func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(instanceA) })
	if held, err := c.Held(t.Context(), instanceA); err != nil || len(held) != 0 {
		t.Errorf("held: %v, %v", held, err)
	}
	if _, err := c.HandOut(t.Context(), c.get(t, "odd"), instanceA); !errors.Is(err, ErrUnusable) {
		t.Errorf("handed out: %v", err)
	}
}

func TestChooseReadsPastAStaleCache(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for i := range 3 {
		c.put(t, fmt.Sprintf("key-%d", i), nil)
	}
	c.view.Hold()
	c.allocate(t, "key-0", instanceB)
	c.allocate(t, "key-1", instanceB)
	if key, err := c.Choose(t.Context(), instanceA, nil, nil); err != nil || key.Name() != "key-2" {
		t.Errorf("%v, %v", key, err)
	}
	if err := c.hand.Delete(t.Context(), "key-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Choose(t.Context(), instanceA, nil, nil)
	wantError(t, err, ErrExhausted)
}

func TestChooseStopsAtErrors(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	busy := apierrors.NewInternalError(errors.New("etcd is away"))
	c.hook = func(context.Context, apitest.Call) error { return busy }
	_, err := c.Choose(t.Context(), instanceA, nil, nil)
	wantError(t, err, busy)
	if errors.Is(err, ErrExhausted) || len(c.events()) != 0 {
		t.Error("an error is no exhaustion")
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for _, name := range []string{"none", ""} {
		_, err := c.Get(t.Context(), name)
		wantError(t, err, ErrUnusable)
	}
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(nil)
		c.put(t, "key-1", func(s *corev1.Secret) {
			s.Labels["site"] = "home"
			s.Annotations = map[string]string{releasedAt: "1999-01-01T00:00:00Z", "other": "stays"}
		})
		key := c.allocate(t, "key-1", instanceA)
		wantHolder(t, key, instanceA)
		s := key.secret()
		if s.Annotations[annotation+"allocated-to"] != string(instanceA) || s.Annotations[annotation+"allocated-at"] != "2000-01-01T00:00:00Z" {
			t.Errorf("annotations %v", s.Annotations)
		}
		if _, there := s.Annotations[releasedAt]; there || s.Annotations["other"] != "stays" || s.Labels["site"] != "home" {
			t.Errorf("annotations %v, labels %v", s.Annotations, s.Labels)
		}
		if string(s.Data[ConfigKey]) != config("key-1") || key.Marked(instanceA) {
			t.Error("more was changed")
		}
		if got := c.events(); len(got) != 1 || got[0] != "Normal WireGuardKeyAllocated Allocated to EC2 instance "+string(instanceA) {
			t.Errorf("events %q", got)
		}
		time.Sleep(time.Minute)
		version := s.ResourceVersion
		if again := c.allocate(t, "key-1", instanceA); again.secret().ResourceVersion != version {
			t.Error("a held key was written again")
		}
		if c.client.Count("update") != 1 || len(c.events()) != 0 {
			t.Error("allocating again is not silent")
		}
	})
}

func TestAllocateTakesWhatAHandLabelled(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(instanceA) })
	if key := c.allocate(t, "key-1", instanceA); key.secret().Annotations[allocatedTo] != string(instanceA) {
		t.Error("without the shadow of the label")
	}
}

func TestAllocateRestoresItsOwnLostLabel(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*corev1.Secret){
		"removed": func(s *corev1.Secret) { delete(s.Labels, InstanceLabel) },
		"emptied": func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" },
	} {
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.handOut(t, "key-1", instanceA)
		c.edit(t, "key-1", damage)
		wantError(t, c.Allocate(t.Context(), c.get(t, "key-1"), instanceB), ErrTaken)
		key := c.allocate(t, "key-1", instanceA)
		wantHolder(t, key, instanceA)
		if !key.Marked(instanceA) {
			t.Errorf("%s: the mark is lost", name)
		}
	}
}

func TestAllocateByCompareAndSet(t *testing.T) {
	t.Parallel()
	t.Run("harmless change meanwhile", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.meddleOnce("update", func() { c.edit(t, "key-1", func(s *corev1.Secret) { s.Labels["site"] = "home" }) })
		wantHolder(t, c.allocate(t, "key-1", instanceA), instanceA)
		if c.get(t, "key-1").secret().Labels["site"] != "home" {
			t.Error("the other change was overwritten")
		}
	})
	t.Run("taken meanwhile", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.meddleOnce("update", func() {
			c.edit(t, "key-1", func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(instanceB) })
		})
		wantError(t, c.Allocate(t.Context(), c.get(t, "key-1"), instanceA), ErrTaken)
		wantHolder(t, c.get(t, "key-1"), instanceB)
	})
	t.Run("allocated to us meanwhile", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		stale := c.get(t, "key-1")
		c.allocate(t, "key-1", instanceA)
		if err := c.Allocate(t.Context(), stale, instanceA); err != nil {
			t.Error(err)
		}
	})
	t.Run("removed meanwhile", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.meddleOnce("update", func() { _ = c.hand.Delete(context.Background(), "key-1", metav1.DeleteOptions{}) })
		wantError(t, c.Allocate(t.Context(), c.get(t, "key-1"), instanceA), ErrUnusable)
	})
	t.Run("changed without end", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		n := 0
		c.hook = func(_ context.Context, call apitest.Call) error {
			if n++; call.Verb == "update" {
				c.edit(t, "key-1", func(s *corev1.Secret) { s.Labels["n"] = fmt.Sprint(n) })
			}
			return nil
		}
		if err := c.Allocate(t.Context(), c.get(t, "key-1"), instanceA); err == nil || c.client.Count("update") != attempts {
			t.Errorf("%v after %d updates", err, c.client.Count("update"))
		}
	})
	t.Run("server error", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		busy := apierrors.NewTooManyRequests("later", 1)
		c.hook = func(context.Context, apitest.Call) error { return busy }
		wantError(t, c.Allocate(t.Context(), c.get(t, "key-1"), instanceA), busy)
		if c.client.Count() != 1 || len(c.events()) != 0 {
			t.Error("tried again, or told of success")
		}
	})
	t.Run("answer lost", func(t *testing.T) {
		t.Parallel()
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.hook = func(context.Context, apitest.Call) error {
			return apitest.AnswerLost(apierrors.NewTimeoutError("late", 1))
		}
		if err := c.Allocate(t.Context(), c.get(t, "key-1"), instanceA); err == nil {
			t.Error("no error")
		}
		c.hook = nil
		wantHolder(t, c.allocate(t, "key-1", instanceA), instanceA)
	})
}

func TestOneOfManyAllocationsWins(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	key := c.get(t, "key-1")
	errs := make([]error, 16)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = c.Allocate(context.Background(), key, instanceNumber(i)) })
	}
	group.Wait()
	winners := slices.IndexFunc(errs, func(err error) bool { return err == nil })
	for i, err := range errs {
		if i != winners && !errors.Is(err, ErrTaken) {
			t.Errorf("instance %d: %v", i, err)
		}
	}
	if winners < 0 {
		t.Fatal("none won")
	}
	wantHolder(t, c.get(t, "key-1"), instanceNumber(winners))
}

func TestHeld(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for _, name := range []string{"c", "a", "b", "d"} {
		c.put(t, name, nil)
	}
	for _, name := range []string{"c", "a"} {
		c.allocate(t, name, instanceA)
	}
	c.allocate(t, "b", instanceB)
	c.view.Hold() // it reads the API server
	c.allocate(t, "d", instanceA)
	held, err := c.Held(t.Context(), instanceA)
	if err != nil || fmt.Sprint(held) != "[a c d]" {
		t.Errorf("held %v, %v", held, err)
	}
	if got := c.HeldNames(instanceA); len(got) != 2 {
		t.Errorf("by the cache: %v", got)
	}
	busy := apierrors.NewTooManyRequests("later", 1)
	c.hook = func(context.Context, apitest.Call) error { return busy }
	_, err = c.Held(t.Context(), instanceA)
	wantError(t, err, busy)
}

func TestHolders(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.put(t, name, nil)
	}
	c.allocate(t, "a", instanceA)
	c.allocate(t, "b", instanceB)
	c.edit(t, "b", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" })
	c.edit(t, "c", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "reserved" })
	got := c.Holders()
	slices.Sort(got)
	if !slices.Equal(got, []instance.ID{instanceA, instanceB}) {
		t.Errorf("holders %v", got)
	}
	if lost := c.LostNames(instanceB); !slices.Equal(lost, []string{"b"}) || len(c.LostNames(instanceA)) != 0 {
		t.Errorf("lost %v", lost)
	}
}
