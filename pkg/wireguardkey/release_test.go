package wireguardkey

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

func TestHandOutMarksFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		key := c.allocate(t, "key-1", instanceA)
		config1, err := c.HandOut(t.Context(), key, instanceA)
		if err != nil || string(config1) != config("key-1") {
			t.Fatalf("%d bytes, %v", len(config1), err)
		}
		marked := c.get(t, "key-1")
		if marked.secret().Annotations[annotation+"handed-out-to"] != string(instanceA) ||
			marked.secret().Annotations[annotation+"handed-out-at"] != "2000-01-01T00:00:00Z" || !marked.Marked(instanceA) || marked.Marked(instanceB) {
			t.Errorf("annotations %v", marked.secret().Annotations)
		}
		c.client.Forget()
		time.Sleep(time.Hour)
		again, err := c.HandOut(t.Context(), marked, instanceA)
		if err != nil || string(again) != string(config1) || c.client.Count() != 0 {
			t.Errorf("again: %v, %v", err, c.client.Calls())
		}
	})
}

func TestHandOutRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(*corev1.Secret)
		want   error
	}{
		{"free", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" }, ErrTaken},
		{"not in the pool", func(s *corev1.Secret) { s.Labels = nil }, ErrTaken},
		{"another's", func(s *corev1.Secret) { s.Labels[InstanceLabel] = string(instanceB) }, ErrTaken},
		{"marked for another", func(s *corev1.Secret) { s.Annotations[handedOutTo] = string(instanceB) }, ErrTaken},
		{"without config", func(s *corev1.Secret) { s.Data = nil }, ErrUnusable},
		{"refused by usable", func(s *corev1.Secret) { s.Data[ConfigKey] = []byte("bad") }, ErrUnusable},
	} {
		c := newCluster(refuseBad)
		c.put(t, "key-1", nil)
		c.allocate(t, "key-1", instanceA)
		c.edit(t, "key-1", tc.damage)
		version := c.get(t, "key-1").secret().ResourceVersion
		config, err := c.HandOut(t.Context(), c.get(t, "key-1"), instanceA)
		if config != nil || !errors.Is(err, tc.want) {
			t.Errorf("%s: %d bytes, %v", tc.name, len(config), err)
		}
		if c.get(t, "key-1").secret().ResourceVersion != version {
			t.Errorf("%s: marked", tc.name)
		}
	}
}

func TestHandOutRefusesAKeyThatChanged(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	key := c.allocate(t, "key-1", instanceA)
	if _, err := c.Release(t.Context(), key, instanceA); err != nil {
		t.Fatal(err)
	}
	c.allocate(t, "key-1", instanceB)
	config, err := c.HandOut(t.Context(), key, instanceA)
	if config != nil || !apierrors.IsConflict(err) {
		t.Errorf("%d bytes, %v", len(config), err)
	}
	if c.get(t, "key-1").Marked(instanceA) {
		t.Error("marked")
	}
}

func TestHandOutWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	key := c.allocate(t, "key-1", instanceA)
	c.hook = func(context.Context, apitest.Call) error {
		return apitest.AnswerLost(apierrors.NewTimeoutError("late", 1))
	}
	if config, err := c.HandOut(t.Context(), key, instanceA); config != nil || err == nil {
		t.Errorf("%d bytes, %v", len(config), err)
	}
	if !c.get(t, "key-1").Marked(instanceA) {
		t.Error("not marked")
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, handedOut := range []bool{false, true} {
			c := newCluster(nil)
			c.put(t, "key-1", func(s *corev1.Secret) { s.Labels["site"] = "home" })
			key := c.allocate(t, "key-1", instanceA)
			if handedOut {
				key = c.handOut(t, "key-1", instanceA)
			}
			c.events()
			released, err := c.Release(t.Context(), key, instanceA)
			now := c.get(t, "key-1")
			if err != nil || !released {
				t.Errorf("%v, %v", released, err)
			}
			wantFree(t, now)
			if now.secret().Annotations[annotation+"released-at"] != "2000-01-01T00:00:00Z" || now.secret().Labels["site"] != "home" ||
				string(now.secret().Data[ConfigKey]) != config("key-1") {
				t.Errorf("labels %v, annotations %v", now.secret().Labels, now.secret().Annotations)
			}
			if got := c.events(); len(got) != 1 || got[0] != "Normal WireGuardKeyReleased Released by EC2 instance "+string(instanceA) {
				t.Errorf("events %q", got)
			}
			if released, err := c.Release(t.Context(), key, instanceA); err != nil || released {
				t.Errorf("again: %v, %v", released, err)
			}
		}
	})
}

func TestReleaseTakesOnlyTheInstancesOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	c.put(t, "free", nil)
	stale := c.allocate(t, "key-1", instanceA)
	if _, err := c.Release(t.Context(), stale, instanceA); err != nil {
		t.Fatal(err)
	}
	c.handOut(t, "key-1", instanceB)
	for _, key := range []Key{stale, c.get(t, "key-1"), c.get(t, "free")} {
		if released, err := c.Release(t.Context(), key, instanceA); err != nil || released {
			t.Errorf("%v: %v, %v", key, released, err)
		}
	}
	now := c.get(t, "key-1")
	wantHolder(t, now, instanceB)
	if !now.Marked(instanceB) {
		t.Error("the mark is lost")
	}
}

func TestReleaseOfALostKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(*corev1.Secret)
		pooled bool
	}{
		"emptied": {func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" }, true},
		"removed": {func(s *corev1.Secret) { s.Labels = nil }, false},
	} {
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.handOut(t, "key-1", instanceA)
		c.edit(t, "key-1", tc.damage)
		if released, err := c.Release(t.Context(), c.get(t, "key-1"), instanceB); err != nil || released {
			t.Errorf("%s, for another: %v, %v", name, released, err)
		}
		if released, err := c.Release(t.Context(), c.get(t, "key-1"), instanceA); err != nil || !released {
			t.Errorf("%s: %v, %v", name, released, err)
		}
		now := c.get(t, "key-1")
		if _, isLost := lost(now.secret()); isLost || free(now.secret()) != tc.pooled {
			t.Errorf("%s: %v %v", name, now.secret().Labels, now.secret().Annotations)
		}
	}
}

// A key that A has in use was given B's label by hand: it stays A's, whatever
// becomes of B, and A's label comes back.
func TestAKeyRelabelledByHandStaysWithWhomItWasHandedOut(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	c.handOut(t, "key-1", instanceA)
	c.edit(t, "key-1", func(s *corev1.Secret) {
		s.Labels[InstanceLabel] = string(instanceB)
		s.Annotations[allocatedTo] = string(instanceB)
	})
	if held, err := c.Held(t.Context(), instanceB); err != nil || len(held) > 0 {
		t.Errorf("B holds %v, %v", held, err)
	}
	if released, err := c.Release(t.Context(), c.get(t, "key-1"), instanceB); err != nil || released {
		t.Errorf("release by B: %v, %v", released, err)
	}
	if released, err := c.TakeBack(t.Context(), "key-1", instanceB); err != nil || released {
		t.Errorf("take back from B: %v, %v", released, err)
	}
	if err := c.Allocate(t.Context(), c.get(t, "key-1"), instanceB); !errors.Is(err, ErrTaken) {
		t.Errorf("allocate to B: %v", err)
	}
	if restored, err := c.Restore(t.Context(), "key-1", instanceA); err != nil || !restored {
		t.Errorf("restore: %v, %v", restored, err)
	}
	now := c.get(t, "key-1")
	wantHolder(t, now, instanceA)
	if !now.Marked(instanceA) || now.secret().Annotations[allocatedTo] != string(instanceA) {
		t.Errorf("annotations: %v", now.secret().Annotations)
	}
}

func TestTakeBack(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	for _, name := range []string{"held", "marked", "free", "another's"} {
		c.put(t, name, nil)
	}
	c.allocate(t, "held", instanceA)
	c.handOut(t, "marked", instanceA)
	c.allocate(t, "another's", instanceB)
	for name, want := range map[string]bool{"held": true, "marked": false, "free": false, "another's": false, "none": false, "": false} {
		if got, err := c.TakeBack(t.Context(), name, instanceA); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	wantFree(t, c.get(t, "held"))
	wantHolder(t, c.get(t, "marked"), instanceA)
	wantHolder(t, c.get(t, "another's"), instanceB)
}

func TestTakeBackLosesTheRaceAgainstTheMark(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	c.allocate(t, "key-1", instanceA)
	c.meddleOnce("update", func() {
		c.edit(t, "key-1", func(s *corev1.Secret) { s.Annotations[handedOutTo] = string(instanceA) })
	})
	if got, err := c.TakeBack(t.Context(), "key-1", instanceA); err != nil || got {
		t.Errorf("%v, %v", got, err)
	}
	if key := c.get(t, "key-1"); !key.Marked(instanceA) {
		t.Error("the mark is lost")
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	damages := map[string]func(*corev1.Secret){
		"emptied":             func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" },
		"removed":             func(s *corev1.Secret) { s.Labels = nil },
		"only the mark stays": func(s *corev1.Secret) { s.Labels = nil; delete(s.Annotations, allocatedTo) },
	}
	for name, damage := range damages {
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		c.handOut(t, "key-1", instanceA)
		c.edit(t, "key-1", damage)
		if restored, err := c.Restore(t.Context(), "key-1", instanceB); err != nil || restored {
			t.Errorf("%s, for another: %v, %v", name, restored, err)
		}
		if restored, err := c.Restore(t.Context(), "key-1", instanceA); err != nil || !restored {
			t.Errorf("%s: %v, %v", name, restored, err)
		}
		key := c.get(t, "key-1")
		wantHolder(t, key, instanceA)
		if !key.Marked(instanceA) || key.secret().Annotations[allocatedTo] != string(instanceA) {
			t.Errorf("%s: %v", name, key.secret().Annotations)
		}
	}
	c := newCluster(nil)
	c.put(t, "free", nil)
	c.put(t, "held", nil)
	c.allocate(t, "held", instanceA)
	c.put(t, "odd", func(s *corev1.Secret) {
		s.Type = "Opaque"
		s.Annotations = map[string]string{allocatedTo: string(instanceA)}
	})
	for _, name := range []string{"free", "held", "odd", "none", ""} {
		if restored, err := c.Restore(t.Context(), name, instanceA); err != nil || restored {
			t.Errorf("%s: %v, %v", name, restored, err)
		}
	}
}

func TestServerErrorsComeThrough(t *testing.T) {
	t.Parallel()
	busy := apierrors.NewTooManyRequests("later", 1)
	for _, verb := range []string{"get", "update"} {
		c := newCluster(nil)
		c.put(t, "key-1", nil)
		key := c.allocate(t, "key-1", instanceA)
		c.put(t, "lost", nil)
		c.allocate(t, "lost", instanceA)
		c.edit(t, "lost", func(s *corev1.Secret) { s.Labels[InstanceLabel] = "" })
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == verb {
				return busy
			}
			return nil
		}
		calls := map[string]func() error{
			"take back": func() error { _, err := c.TakeBack(t.Context(), "key-1", instanceA); return err },
			"restore":   func() error { _, err := c.Restore(t.Context(), "lost", instanceA); return err },
		}
		if verb == "update" {
			calls["release"] = func() error { _, err := c.Release(t.Context(), key, instanceA); return err }
			calls["hand out"] = func() error { _, err := c.HandOut(t.Context(), key, instanceA); return err }
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, busy) {
				t.Errorf("%s, %s fails: %v", name, verb, err)
			}
		}
	}
}

func TestReleaseOfARemovedSecret(t *testing.T) {
	t.Parallel()
	c := newCluster(nil)
	c.put(t, "key-1", nil)
	key := c.allocate(t, "key-1", instanceA)
	if err := c.hand.Delete(t.Context(), "key-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if released, err := c.Release(t.Context(), key, instanceA); released || !errors.Is(err, ErrUnusable) {
		t.Errorf("%v, %v", released, err)
	}
}
