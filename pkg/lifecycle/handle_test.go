package lifecycle_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// outcome is what the poller reads from an error.
func outcome(err error) string {
	var named interface{ Outcome() string }
	if errors.As(err, &named) {
		return named.Outcome()
	}
	return ""
}

func TestWhatAnEventDoes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		before  func(*world, *replica)
		state   instance.State
		want    string
		outcome string // of the error
		after   func(*world)
	}{
		{
			"running: admitted", func(w *world, _ *replica) { w.ec2.launch(instanceA) }, instance.Running, "admitted", "",
			func(w *world) { w.wantComplete(instanceA) },
		},
		{
			"pending: admitted", func(w *world, _ *replica) { w.ec2.launch(instanceA); w.ec2.setState(instanceA, instance.Pending) },
			instance.Pending, "admitted", "", func(w *world) { w.wantComplete(instanceA) },
		},
		{
			"running again: nothing new", func(w *world, r *replica) { r.admit(instanceA) }, instance.Running, "admitted", "",
			func(w *world) { w.wantComplete(instanceA) },
		},
		{
			"running, not ours", func(w *world, _ *replica) {
				w.ec2.launch(instanceA)
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = map[string]string{"role": "database"} })
			}, instance.Running, "not_ours", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, joined", func(w *world, _ *replica) { w.ec2.launch(instanceA); w.join(instanceA, corev1.ConditionFalse) },
			instance.Running, "joined", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, but EC2 says shutting-down", func(w *world, r *replica) {
				r.admit(instanceA)
				w.ec2.setState(instanceA, instance.ShuttingDown)
			}, instance.Running, "closed", "", func(w *world) { wantOnlyKey(w, instanceA) },
		},
		{
			"running, but EC2 says terminated", func(w *world, r *replica) {
				r.admit(instanceA)
				w.ec2.setState(instanceA, instance.Terminated)
			}, instance.Running, "retired", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, but EC2 still says stopped", func(w *world, _ *replica) { w.ec2.launch(instanceA); w.ec2.setState(instanceA, instance.Stopped) },
			instance.Running, "", "too_young", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, not in EC2 yet", func(*world, *replica) {}, instance.Running, "", "too_young",
			func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, no tags yet", func(w *world, _ *replica) {
				w.ec2.launch(instanceA)
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags, i.LaunchTime = nil, time.Now().Add(-time.Minute) })
			}, instance.Running, "", "too_young", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"running, without tags for long", func(w *world, _ *replica) {
				w.ec2.launch(instanceA)
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
			}, instance.Running, "not_ours", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"shutting-down: the key stays", func(w *world, r *replica) { r.admit(instanceA) }, instance.ShuttingDown, "closed", "",
			func(w *world) { wantOnlyKey(w, instanceA) },
		},
		{
			"shutting-down, never ours", func(*world, *replica) {}, instance.ShuttingDown, "gone", "",
			func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"terminated: all goes back", func(w *world, r *replica) {
				r.admit(instanceA)
				r.grant(instanceA)
				w.join(instanceA, corev1.ConditionTrue)
				w.ec2.setState(instanceA, instance.Terminated)
			}, instance.Terminated, "retired", "", func(w *world) {
				w.wantNothing(instanceA)
				if w.hasNode(instanceA) {
					w.t.Error("the node is left")
				}
			},
		},
		{
			"terminated, tags changed", func(w *world, r *replica) {
				r.admit(instanceA)
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags, i.State = nil, instance.Terminated })
			}, instance.Terminated, "retired", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"terminated, label lost", func(w *world, r *replica) {
				r.admit(instanceA)
				w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels[label] = "" })
			}, instance.Terminated, "retired", "", func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"terminated, only a node of ours", func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionUnknown) }, instance.Terminated, "retired", "",
			func(w *world) {
				if w.hasNode(instanceA) {
					w.t.Error("the node is left")
				}
			},
		},
		{
			"terminated, never ours", func(*world, *replica) {}, instance.Terminated, "not_ours", "",
			func(w *world) { w.wantNothing(instanceA) },
		},
		{
			"stopping", func(w *world, r *replica) { r.admit(instanceA) }, instance.Stopping, "ignored", "",
			func(w *world) { w.wantComplete(instanceA) },
		},
		{
			"stopped", func(w *world, r *replica) { r.admit(instanceA) }, instance.Stopped, "ignored", "",
			func(w *world) { w.wantComplete(instanceA) },
		},
		{
			"no state", func(w *world, r *replica) { r.admit(instanceA) }, "", "ignored", "",
			func(w *world) { w.wantComplete(instanceA) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2", "key-3")
				r := w.start()
				tc.before(w, r)
				got, err := r.Handle(t.Context(), event(instanceA, tc.state))
				if got != tc.want || outcome(err) != tc.outcome || (err != nil) != (tc.outcome != "") {
					t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.outcome)
				}
				tc.after(w)
				again, err := r.Handle(t.Context(), event(instanceA, tc.state))
				if tc.outcome == "" && err != nil {
					t.Errorf("repeated: %q, %v", again, err)
				}
				tc.after(w)
			})
		})
	}
}

func wantOnlyKey(w *world, id instance.ID) {
	w.t.Helper()
	if len(w.keysOf(id)) != 1 || len(w.claimsOf(id)) != 0 {
		w.t.Errorf("%s has keys %v and claims %v, want a key only", id, w.keysOf(id), describe(w.claimsOf(id)))
	}
}

func TestCallsOfAnAdmission(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		r.admit(instanceA)
		if writes := r.client.Count("create", "update", "delete"); writes != 2 || r.client.Count() > 6 {
			t.Errorf("calls %v", r.client.Calls())
		}
		before := w.versions()
		r.client.Forget()
		for range 5 { // duplicates
			r.handle(instanceA, instance.Running, "admitted")
		}
		if !maps.Equal(before, w.versions()) {
			t.Errorf("duplicates wrote: %v", r.client.Calls())
		}
	})
}

func TestAStoppedInstanceThatIsAnnouncedLateIsGone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		w.ec2.launch(instanceA)
		w.ec2.setState(instanceA, instance.Stopped)
		e := event(instanceA, instance.Running)
		e.Time = time.Now().Add(-time.Hour)
		if got, err := r.Handle(t.Context(), e); got != "gone" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestAnInstanceThatNeverAppearsIsGivenUp(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		r := w.start()
		e := event(instanceA, instance.Running)
		time.Sleep(grace)
		if _, err := r.Handle(t.Context(), e); outcome(err) != "too_young" || !errors.Is(err, instance.ErrNotFound) {
			t.Errorf("in the grace period: %v", err)
		}
		time.Sleep(time.Second)
		if got, err := r.Handle(t.Context(), e); got != "gone" || err != nil {
			t.Errorf("after it: %q, %v", got, err)
		}
		if _, err := r.Handle(t.Context(), ec2event.Event{InstanceID: instanceA, State: instance.Running}); outcome(err) != "too_young" {
			t.Errorf("without a time: %v", err)
		}
	})
}

func TestErrorsOfEC2AreNoDecision(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		w.ec2.launch(instanceA)
		w.ec2.err = errors.New("RequestLimitExceeded")
		got, err := r.Handle(t.Context(), event(instanceA, instance.Running))
		if got != "" || !errors.Is(err, w.ec2.err) || outcome(err) != "" {
			t.Errorf("%q, %v", got, err)
		}
		w.wantNothing(instanceA)
	})
}

func TestYoungInstancesWithoutTags(t *testing.T) {
	t.Parallel()
	untagged := instance.Condition{Key: "retired", Absent: true}
	tagged := instance.Condition{Key: "role", Values: []string{"worker"}}
	for name, tc := range map[string]struct {
		conditions [][]instance.Condition // of the profiles; none: match all
		young      string
		old        string // result once it is not young any more, profile once it has tags
		tagged     string
	}{
		"match all":                  {[][]instance.Condition{nil}, "admitted", "p0", "p0"},
		"absence of a tag":           {[][]instance.Condition{{untagged}}, "", "p0", "p0"},
		"match all as a last resort": {[][]instance.Condition{{tagged}, nil}, "", "p1", "p0"},
		"match all first":            {[][]instance.Condition{nil, {tagged}}, "admitted", "p0", "p0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				var profiles []lifecycle.Profile
				for i, conditions := range tc.conditions {
					profiles = append(profiles, profile(t, "p"+string(rune('0'+i)), conditions...))
				}
				r.SetProfiles(profiles)
				w.ec2.launch(instanceA)
				tags := map[string]string{"role": "worker"}
				w.ec2.change(instanceA, func(i *instance.Instance) { i.LaunchTime, i.Tags = time.Now(), nil })
				got, err := r.Handle(t.Context(), event(instanceA, instance.Running))
				if got != tc.young || (got == "" && outcome(err) != "too_young") {
					t.Errorf("young: %q, %v", got, err)
				}
				r.reconcile(1) // decides the same
				if n := len(w.claimsOf(instanceA)); (n == 1) != (tc.young == "admitted") {
					t.Errorf("after a reconcile pass: %d claims", n)
				}
				wantProfile := func(want string) {
					t.Helper()
					r.handle(instanceA, instance.Running, "admitted")
					if got := w.claimsOf(instanceA)[0].Annotations["dynk8s.du5t1n.me/profile"]; got != want {
						t.Errorf("profile %s, want %s", got, want)
					}
					w.removeClaims(instanceA)
				}
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = tags })
				wantProfile(tc.tagged)
				w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
				time.Sleep(3 * time.Minute)
				wantProfile(tc.old)
			})
		})
	}
}

func TestFirstMatchingProfileCounts(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.SetProfiles(nil)
		w.ec2.launch(instanceA)
		r.handle(instanceA, instance.Running, "not_ours")
		other := profile(t, "other", instance.Condition{Key: "role", Values: []string{"database"}})
		first, second := worker(t), worker(t)
		second.Name = "second"
		r.SetProfiles([]lifecycle.Profile{other, first, second})
		r.admit(instanceA)
		s := w.claimsOf(instanceA)[0]
		for name, want := range map[string]string{"profile": "worker", "zone": "us-east-2a", "instance-type": "t3.small", "private-dns-name": "ip-10-0-0-1.internal"} {
			if got := s.Annotations["dynk8s.du5t1n.me/"+name]; got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
	})
}

func TestTombstones(t *testing.T) {
	t.Parallel()
	for _, end := range []instance.State{instance.ShuttingDown, instance.Terminated} {
		t.Run(string(end)+" before running", func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				w.ec2.launch(instanceA) // EC2's answers are behind
				_, err := r.Handle(t.Context(), event(instanceA, end))
				if err != nil {
					t.Error(err)
				}
				r.handle(instanceA, instance.Running, "gone")
				r.reconcile(2)
				w.wantNothing(instanceA)
				if _, err := r.Grant(t.Context(), instanceA); !errors.Is(err, lifecycle.ErrClosed) {
					t.Errorf("grant: %v", err)
				}
				time.Sleep(7 * time.Hour)
				r.handle(instanceA, instance.Running, "admitted") // it is forgotten some day
			})
		})
	}
	t.Run("stopped leaves none", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			w.ec2.launch(instanceA)
			r.handle(instanceA, instance.Stopped, "ignored")
			r.admit(instanceA)
		})
	})
}

// The end is handled while the admission is under way.
func TestAnInstanceThatDiesDuringItsAdmissionIsLeftNothing(t *testing.T) {
	t.Parallel()
	for _, end := range []instance.State{instance.ShuttingDown, instance.Terminated} {
		for n := 0; ; n++ {
			reached := false
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				r := w.start()
				w.ec2.launch(instanceA)
				r.setHook(before(n, func() {
					reached = true
					r.setHook(nil)
					w.ec2.setState(instanceA, instance.Terminated)
					_, _ = r.Handle(t.Context(), event(instanceA, end))
				}))
				for range 3 { // an error brings the message again
					if _, err := r.Handle(t.Context(), event(instanceA, instance.Running)); err == nil {
						break
					}
				}
				if reached && len(w.claimsOf(instanceA)) > 0 {
					t.Errorf("%s before call %d: a token is left", end, n)
				}
				r.handleUntilSettled(instanceA, instance.Terminated)
				w.wantNothing(instanceA)
			})
			if !reached {
				break
			}
		}
	}
}

// Until it is dead the VPN is in use.
func TestAnInstanceThatShutsDownDuringItsAdmissionKeepsItsKey(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		reached := false
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1", "key-2")
			r := w.start()
			r.admit(instanceA)
			r.grant(instanceA)
			r.setHook(before(n, func() {
				reached = true
				r.setHook(nil)
				w.ec2.setState(instanceA, instance.ShuttingDown)
				r.handleUntilSettled(instanceA, instance.ShuttingDown)
			}))
			for range 3 {
				if _, err := r.Handle(t.Context(), event(instanceA, instance.Running)); err == nil {
					break
				}
			}
			if reached {
				wantOnlyKey(w, instanceA)
			}
			w.truth.check(w)
		})
		if !reached {
			break
		}
	}
}

// What is left of ours by a crash must be enough to find the instance by.
func TestOrderOfARetirement(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		w.join(instanceA, corev1.ConditionTrue)
		r.client.Forget()
		r.handle(instanceA, instance.Terminated, "retired")
		var writes []string
		for _, c := range r.client.Calls() {
			if c.Verb == "delete" || c.Verb == "update" {
				writes = append(writes, c.Verb+" "+c.Resource+" "+c.Namespace)
			}
		}
		if want := []string{"delete secrets kube-system", "delete nodes ", "update secrets dynk8s"}; !slices.Equal(writes, want) {
			t.Errorf("writes %q", writes)
		}
	})
}

func TestRetireLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		r.admit(instanceA)
		r.admit(instanceB)
		r.grant(instanceB)
		w.join(instanceB, corev1.ConditionTrue)
		keys := w.keysOf(instanceB)
		r.handle(instanceA, instance.Terminated, "retired")
		w.wantNothing(instanceA)
		if !slices.Equal(w.keysOf(instanceB), keys) || !w.hasNode(instanceB) || len(w.claimsOf(instanceB)) != 1 {
			t.Error("the other was harmed")
		}
	})
}

func TestNeverJoinedIsCounted(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		r.admit(instanceA)
		r.handle(instanceA, instance.Terminated, "retired")
		r.admit(instanceB)
		w.join(instanceB, corev1.ConditionTrue)
		r.reconcile(1)
		r.handle(instanceB, instance.Terminated, "retired")
		if got := r.counter("dynk8s_never_joined_total"); got != 1 {
			t.Errorf("%v never joined", got)
		}
	})
}

// handleUntilSettled repeats an event as the queue would.
func (r *replica) handleUntilSettled(id instance.ID, s instance.State) string {
	r.w.t.Helper()
	var err error
	for range 10 {
		var result string
		if result, err = r.Handle(context.Background(), event(id, s)); err == nil {
			return result
		}
	}
	r.w.t.Errorf("%s %s is never settled: %v", id, s, err)
	return ""
}
