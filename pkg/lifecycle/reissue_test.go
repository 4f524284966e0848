package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

// reissue does as the operator asks and wants it done.
func (r *replica) reissue(id instance.ID) lifecycle.Reissued {
	r.w.t.Helper()
	got, err := r.Reissue(context.Background(), id)
	if err != nil {
		r.w.t.Errorf("reissue for %s: %v", id, err)
	}
	return got
}

// joinAndClose lets an admitted instance fetch, join, and be done.
func (r *replica) joinAndClose(id instance.ID) {
	r.w.t.Helper()
	r.grant(id)
	r.w.join(id, corev1.ConditionTrue)
	r.reconcile(1)
	wantOnlyKey(r.w, id)
	r.wantClosed(id)
	time.Sleep(time.Minute)
}

// wantClosed wants a fetch refused, for good.
func (r *replica) wantClosed(id instance.ID) {
	r.w.t.Helper()
	if g, err := r.Grant(context.Background(), id); !errors.Is(err, lifecycle.ErrClosed) || g.WireGuardConfig != nil {
		r.w.t.Errorf("grant to %s: %v, %v; want closed", id, g, err)
	}
}

// secretsOf are the secret parts of an instance's tokens.
func (w *world) secretsOf(id instance.ID) []string {
	var secrets []string
	for _, s := range w.claimsOf(id) {
		secrets = append(secrets, string(s.Data["token-secret"]))
	}
	return secrets
}

// wantReissued checks that the instance has one token, which is the one that the
// operator was told of, and the key.
func (w *world) wantReissued(id instance.ID, got lifecycle.Reissued) {
	w.t.Helper()
	w.wantComplete(id)
	claims := w.claimsOf(id)
	if len(claims) != 1 {
		return
	}
	s := claims[0]
	if string(s.Data["token-id"]) != got.TokenID || s.Annotations[claimedKey] != got.Key ||
		s.Annotations[reissued] != got.Until.UTC().Format(time.RFC3339) || s.Annotations["dynk8s.du5t1n.me/profile"] != got.Profile {
		w.t.Errorf("told %+v, there is token %s with %v", got, s.Data["token-id"], s.Annotations)
	}
}

// reissueStarts are the states in which a reissue may find an instance.
var reissueStarts = map[string]func(*world, *replica){
	"admitted, fetched": func(_ *world, r *replica) { r.admit(instanceA); r.grant(instanceA) },
	"joined": func(_ *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
	},
	"joined, token not revoked yet": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		w.join(instanceA, corev1.ConditionTrue)
		time.Sleep(time.Minute)
	},
	"joined, not Ready yet": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		w.join(instanceA, corev1.ConditionFalse)
	},
	"joined, not Ready any more": func(w *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		w.setReady(instanceA, corev1.ConditionUnknown)
	},
	"joined, label lost": func(w *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		w.truth.labelsMove = true
		w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels[label] = "" })
	},
	"joined, label removed": func(w *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		w.truth.labelsMove = true
		w.editKey(w.keysOf(instanceA)[0], func(s *corev1.Secret) { s.Labels = nil })
	},
	"joined by hand": func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionTrue); time.Sleep(time.Minute) },
	"not joined in time": func(w *world, r *replica) {
		r.admit(instanceA)
		r.grant(instanceA)
		w.ec2.change(instanceA, func(i *instance.Instance) { i.LaunchTime = time.Now().Add(-2 * cutoff) })
		time.Sleep(ttl + interval)
		r.reconcile(1)
		wantOnlyKey(w, instanceA)
	},
	"reissued before": func(_ *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		r.reissue(instanceA)
		r.grant(instanceA)
		time.Sleep(time.Minute)
	},
	"reissued before, lapsed": func(_ *world, r *replica) {
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		r.reissue(instanceA)
		time.Sleep(ttl)
	},
}

// allStarts are those of an admission too.
func allStarts() map[string]func(*world, *replica) {
	all := maps.Clone(starts)
	maps.Copy(all, reissueStarts)
	return all
}

// someStarts are as many as can be tried at every call.
func someStarts() map[string]func(*world, *replica) {
	some := maps.Clone(reissueStarts)
	for _, name := range []string{"new", "claim only", "complete", "expired", "two keys", "key's label emptied", "claim's label removed"} {
		some[name] = starts[name]
	}
	return some
}

func TestReissue(t *testing.T) {
	t.Parallel()
	for start, prepare := range allStarts() {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2", "key-3", "key-4")
				w.ec2.launch(instanceA)
				w.ec2.launch(instanceB)
				r := w.start()
				prepare(w, r)
				had, before, node := w.truth.has[instanceA], w.secretsOf(instanceA), w.hasNode(instanceA)
				got := r.reissue(instanceA)
				if !got.Until.Equal(time.Now().Add(ttl)) || got.Profile != "worker" || had != "" && got.Key != had {
					t.Errorf("told %+v; it was given %q before", got, had)
				}
				for _, secret := range w.secretsOf(instanceA) {
					if slices.Contains(before, secret) {
						t.Error("the old token is there still")
					}
				}
				w.truth.check(w)
				g := r.grant(instanceA)
				if g.Token.ID() != got.TokenID || keyOf(g.WireGuardConfig) != got.Key || !slices.Equal(w.secretsOf(instanceA), []string{secretPart(g)}) {
					t.Errorf("granted %s with key %s, told %+v", g.Token, keyOf(g.WireGuardConfig), got)
				}
				// The passes leave it alone, and what is surplus goes.
				r.reconcile(2)
				w.wantReissued(instanceA, got)
				if again := r.grant(instanceA); again.Token.Reveal() != g.Token.Reveal() {
					t.Error("another token is granted")
				}
				if w.hasNode(instanceA) != node {
					t.Error("the node came or went")
				}
			})
		})
	}
}

func secretPart(g lifecycle.Grant) string {
	_, secret, _ := strings.Cut(g.Token.Reveal(), ".")
	return secret
}

func TestReissueIsRefused(t *testing.T) {
	t.Parallel()
	state := func(s instance.State) func(*world, *replica) {
		return func(w *world, _ *replica) { w.ec2.setState(instanceA, s) }
	}
	errThrottled := errors.New("throttled")
	for name, tc := range map[string]struct {
		damage func(*world, *replica)
		want   error // nil: any
		says   string
	}{
		"stopped":        {state(instance.Stopped), nil, "stopped"},
		"stopping":       {state(instance.Stopping), nil, "stopping"},
		"shutting down":  {state(instance.ShuttingDown), nil, "shutting-down"},
		"terminated":     {state(instance.Terminated), nil, "terminated"},
		"no state":       {state(""), nil, ""},
		"unknown to EC2": {func(w *world, _ *replica) { w.ec2.vanish(instanceA) }, instance.ErrNotFound, "look the instance up"},
		"EC2 errs":       {func(w *world, _ *replica) { w.ec2.err = errThrottled }, errThrottled, "look the instance up"},
		"not ours": {func(w *world, _ *replica) {
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = map[string]string{"role": "database"} })
		}, nil, "no profile"},
		"without tags": {func(w *world, _ *replica) {
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
		}, nil, "no profile"},
		"no profiles": {func(_ *world, r *replica) { r.SetProfiles(nil) }, nil, "no profile"},
		"too young to have tags": {func(w *world, r *replica) {
			r.SetProfiles([]lifecycle.Profile{worker(w.t), profile(w.t, "all the rest")})
			w.ec2.change(instanceA, func(i *instance.Instance) { i.LaunchTime, i.Tags = time.Now(), nil })
		}, nil, "too young"},
		"its end is announced, EC2 is behind": {func(w *world, r *replica) {
			r.setHook(func(context.Context, apitest.Call) error { return errThrottled })
			_, _ = r.Handle(context.Background(), event(instanceA, instance.ShuttingDown))
			r.setHook(nil)
		}, nil, "on its way out"},
	} {
		for _, joined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, joined: %v", name, joined), func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					w.makeKeys("key-1", "key-2")
					r := w.start()
					r.admit(instanceA)
					if joined {
						r.joinAndClose(instanceA)
					}
					tc.damage(w, r)
					versions := w.versions()
					r.client.Forget()
					got, err := r.Reissue(t.Context(), instanceA)
					if err == nil || got != (lifecycle.Reissued{}) || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("%+v, %v", got, err)
					}
					if !maps.Equal(versions, w.versions()) || r.client.Count() != 0 {
						t.Errorf("something was done: %v", r.client.Calls())
					}
				})
			})
		}
	}
}

func TestReissueOfAPendingInstance(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		w.ec2.launch(instanceA)
		w.ec2.change(instanceA, func(i *instance.Instance) { i.State, i.PrivateDNSName = instance.Pending, "" })
		got := r.reissue(instanceA)
		w.wantReissued(instanceA, got)
		w.ec2.launch(instanceA) // running, with a name
		r.handle(instanceA, instance.Running, "admitted")
		w.wantReissued(instanceA, got)
		if g := r.grant(instanceA); g.PrivateDNSName == "" {
			w.t.Error("it never learnt its name")
		}
	})
}

func TestReissueWithoutAFreeKey(t *testing.T) {
	t.Parallel()
	t.Run("and none held", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.admit(instanceB)
			w.ec2.launch(instanceA)
			for range 2 {
				if got, err := r.Reissue(t.Context(), instanceA); !errors.Is(err, wireguardkey.ErrExhausted) || got != (lifecycle.Reissued{}) {
					t.Errorf("%+v, %v", got, err)
				}
				w.wantNothing(instanceA)
				w.wantComplete(instanceB)
			}
			w.makeKeys("key-2")
			w.wantReissued(instanceA, r.reissue(instanceA))
			if g := r.grant(instanceA); keyOf(g.WireGuardConfig) != "key-2" {
				t.Errorf("given %s", keyOf(g.WireGuardConfig))
			}
		})
	})
	t.Run("but one held", func(t *testing.T) {
		t.Parallel()
		in(t, func(_ *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.admit(instanceA)
			r.joinAndClose(instanceA)
			w.wantReissued(instanceA, r.reissue(instanceA))
			r.grant(instanceA)
		})
	})
	t.Run("and the held one's label lost", func(t *testing.T) {
		t.Parallel()
		in(t, func(_ *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.admit(instanceA)
			r.joinAndClose(instanceA)
			w.truth.labelsMove = true
			w.editKey("key-1", func(s *corev1.Secret) { s.Labels[label] = "" })
			w.wantReissued(instanceA, r.reissue(instanceA))
			r.grant(instanceA)
		})
	})
	t.Run("and the held one unusable", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			r.admit(instanceA)
			w.editKey("key-1", func(s *corev1.Secret) { s.Data = nil })
			if got, err := r.Reissue(t.Context(), instanceA); !errors.Is(err, wireguardkey.ErrExhausted) {
				t.Errorf("%+v, %v", got, err)
			}
			if n := len(w.claimsOf(instanceA)); n != 0 {
				t.Errorf("%d tokens without a key", n)
			}
		})
	})
	t.Run("in its profile's part of the pool", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			r := w.start()
			w.ec2.launch(instanceA)
			narrow := worker(t)
			narrow.Keys = labelled(t, "site=home")
			r.SetProfiles([]lifecycle.Profile{narrow})
			if got, err := r.Reissue(t.Context(), instanceA); !errors.Is(err, wireguardkey.ErrExhausted) {
				t.Errorf("%+v, %v", got, err)
			}
			w.wantNothing(instanceA)
			w.editKey("key-1", func(s *corev1.Secret) { s.Labels["site"] = "home" })
			w.wantReissued(instanceA, r.reissue(instanceA))
		})
	})
}

// A key in use is not replaced because the operator broke its Secret.
func TestReissueGivesNoSecondKeyForABrokenOne(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2", "key-3")
		r := w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		key := w.keysOf(instanceA)[0]
		w.editKey(key, func(s *corev1.Secret) { s.Data["wireguard-config"] = []byte("broken") })
		for range 2 {
			if got, err := r.Reissue(t.Context(), instanceA); !errors.Is(err, wireguardkey.ErrUnusable) {
				t.Errorf("%+v, %v", got, err)
			}
			if keys := w.keysOf(instanceA); !slices.Equal(keys, []string{key}) {
				t.Fatalf("keys %v", keys)
			}
		}
		w.editKey(key, func(s *corev1.Secret) { s.Data["wireguard-config"] = []byte(configOf(key)) })
		w.wantReissued(instanceA, r.reissue(instanceA))
		r.grant(instanceA)
	})
}

// The profile is that of today's tags, and its lifetime counts.
func TestReissueByAnotherProfile(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		other := worker(t)
		other.Name, other.Token = "other", bootstraptoken.Settings{TTL: 10 * time.Minute, ExtraGroups: []string{"system:bootstrappers:x"}}
		r.SetProfiles([]lifecycle.Profile{other, worker(t)})
		got := r.reissue(instanceA)
		w.wantReissued(instanceA, got)
		s := w.claimsOf(instanceA)[0]
		if got.Profile != "other" || !got.Until.Equal(time.Now().Add(10*time.Minute)) || string(s.Data["auth-extra-groups"]) != "system:bootstrappers:x" {
			t.Errorf("%+v", got)
		}
	})
}

// The token stays while a Ready node is there, is revoked when the node becomes
// Ready anew, and the endpoint is closed again.
func TestAReissueEndsWhenTheNodeBecomesReadyAnew(t *testing.T) {
	t.Parallel()
	for name, rejoin := range map[string]func(*world){
		"the node was not Ready meanwhile": func(w *world) {
			w.setReady(instanceA, corev1.ConditionUnknown)
			synctest.Wait()
			time.Sleep(time.Second)
			w.setReady(instanceA, corev1.ConditionTrue)
		},
		"the node was replaced": func(w *world) {
			if err := w.nodes.Delete(context.Background(), string(instanceA), deleteOptions); err != nil {
				w.t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(time.Second)
			w.join(instanceA, corev1.ConditionTrue)
		},
		"nobody saw that it was not Ready": func(w *world) { w.setReady(instanceA, corev1.ConditionTrue); time.Sleep(interval) },
	} {
		for _, start := range []string{"joined", "joined, not Ready any more", "joined by hand", "reissued before"} {
			t.Run(name+", "+start, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					w.makeKeys("key-1", "key-2")
					w.ec2.launch(instanceA)
					r := w.start()
					reissueStarts[start](w, r)
					stop := r.run()
					defer func() { stop() }()
					got := r.reissue(instanceA)
					time.Sleep(3 * interval) // passes
					stop()
					stop = r.run() // a start tells of every Ready node
					w.wantReissued(instanceA, got)
					r.grant(instanceA)
					joins := r.counter("dynk8s_join_seconds")
					rejoin(w)
					synctest.Wait()
					wantOnlyKey(w, instanceA)
					r.wantClosed(instanceA)
					if n := r.counter("dynk8s_join_seconds"); n != joins+1 {
						t.Errorf("%v joins observed, were %v", n, joins)
					}
					w.truth.check(w)
				})
			})
		}
	}
}

// The instance's clock writes when its node became Ready, and may be wrong.
func TestAReissueWhateverTheInstancesClockSays(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-24 * time.Hour, -2 * time.Minute, -time.Second, 0, time.Second, 5 * time.Minute, 24 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			in(t, func(_ *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.admit(instanceA)
				r.grant(instanceA)
				w.join(instanceA, corev1.ConditionFalse)
				ready := func(s corev1.ConditionStatus) {
					w.editNode(string(instanceA), func(n *corev1.Node) {
						n.Status.Conditions[0] = readiness(s)
						n.Status.Conditions[0].LastTransitionTime.Time = time.Now().Add(skew)
					})
				}
				ready(corev1.ConditionTrue)
				r.reconcile(1)
				wantOnlyKey(w, instanceA)
				time.Sleep(time.Minute)
				got := r.reissue(instanceA)
				r.reconcile(2)
				w.wantReissued(instanceA, got)
				r.grant(instanceA)
				ready(corev1.ConditionFalse)
				r.grant(instanceA)
				time.Sleep(time.Second)
				ready(corev1.ConditionTrue)
				r.wantClosed(instanceA)
				r.reconcile(1)
				wantOnlyKey(w, instanceA)
			})
		})
	}
}

// The node becomes Ready in the second in which the token was made.
func TestAReissueAndAJoinInTheSameSecond(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		r := w.start()
		time.Sleep(100 * time.Millisecond)
		r.reissue(instanceA)
		r.grant(instanceA)
		time.Sleep(800 * time.Millisecond)
		w.join(instanceA, corev1.ConditionTrue)
		r.wantClosed(instanceA)
		r.reconcile(1)
		wantOnlyKey(w, instanceA)
	})
}

// One life of the token, whatever the passes do.
func TestAReissueLapses(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"joined", "joined, token not revoked yet", "joined by hand"} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				w.ec2.launch(instanceA)
				r := w.start()
				reissueStarts[start](w, r)
				defer r.run()()
				got := r.reissue(instanceA)
				time.Sleep(ttl - time.Second)
				w.wantReissued(instanceA, got)
				r.grant(instanceA)
				if !r.Reissued(instanceA) || r.Open(instanceA) != nil {
					t.Error("closed too early")
				}
				time.Sleep(time.Second)
				if _, err := r.Grant(t.Context(), instanceA); !errors.Is(err, lifecycle.ErrClosed) {
					t.Errorf("open at its end: %v", err)
				}
				if r.Reissued(instanceA) || !errors.Is(r.Open(instanceA), lifecycle.ErrClosed) {
					t.Error("open at its end")
				}
				time.Sleep(interval)
				synctest.Wait()
				wantOnlyKey(w, instanceA)
				if n := r.counter("dynk8s_join_seconds"); n > 0 {
					t.Errorf("%v joins observed", n)
				}
			})
		})
	}
}

// An instance that did not join is renewed as ever, but what the operator asked
// for ends at the first expiry: then a Ready node closes at once.
func TestARenewedReissueIsAnOrdinaryTokenAfterItsFirstExpiry(t *testing.T) {
	t.Parallel()
	for _, fetched := range []bool{false, true} {
		in(t, func(t *testing.T, w *world) {
			w.makeKeys("key-1")
			w.ec2.launch(instanceA)
			r := w.start()
			got := r.reissue(instanceA)
			if fetched {
				r.grant(instanceA)
			}
			secrets := w.secretsOf(instanceA)
			for range int(ttl/interval) + 1 {
				time.Sleep(interval)
				r.reconcile(1)
				w.wantReissued(instanceA, got)
			}
			if !slices.Equal(w.secretsOf(instanceA), secrets) || r.Reissued(instanceA) {
				t.Errorf("another token, or in force: %v", r.Reissued(instanceA))
			}
			r.grant(instanceA)
			w.join(instanceA, corev1.ConditionTrue)
			r.wantClosed(instanceA)
			r.reconcile(1)
			wantOnlyKey(w, instanceA)
			r.wantClosed(instanceA)
		})
	}
}

// One that joined, whose node was removed: it is renewed until the cutoff only.
func TestAReissuePastTheCutoffIsNotRenewed(t *testing.T) {
	t.Parallel()
	in(t, func(_ *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		r := w.start()
		reissueStarts["not joined in time"](w, r)
		got := r.reissue(instanceA)
		r.grant(instanceA)
		for range int(ttl/interval) - 1 {
			time.Sleep(interval)
			r.reconcile(1)
			w.wantReissued(instanceA, got)
		}
		time.Sleep(interval)
		r.reconcile(1)
		wantOnlyKey(w, instanceA)
		if _, err := r.Grant(context.Background(), instanceA); !errors.Is(err, lifecycle.ErrNotAllocated) {
			w.t.Errorf("grant: %v", err)
		}
	})
}

func TestReissueTwice(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"admitted, fetched", "joined", "joined by hand", "not joined in time"} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1", "key-2")
				w.ec2.launch(instanceA)
				r, other := w.start(), w.start()
				reissueStarts[start](w, r)
				first := r.reissue(instanceA)
				token := r.grant(instanceA).Token.Reveal()
				time.Sleep(ttl / 2)
				second := other.reissue(instanceA)
				w.wantReissued(instanceA, second)
				if second.Key != first.Key || !second.Until.Equal(first.Until.Add(ttl/2)) {
					t.Errorf("%+v, then %+v", first, second)
				}
				if other.grant(instanceA).Token.Reveal() == token {
					t.Error("the first token is there still")
				}
				time.Sleep(ttl * 3 / 4) // past the first one's end
				r.grant(instanceA)
				w.truth.check(w)
			})
		})
	}
}

// A replica whose node cache is behind does not prolong what an operator gave.
func TestALateReplicaDoesNotProlongAReissue(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r, late := w.start(), w.start()
		late.nodeView.Hold()
		r.admit(instanceA)
		r.joinAndClose(instanceA)
		got := r.reissue(instanceA)
		for range int(ttl/interval) - 1 {
			time.Sleep(interval)
			late.reconcile(1)
			r.reconcile(1)
			w.wantReissued(instanceA, got)
		}
		if n := late.counter("dynk8s_reconcile_corrections_total", "token_renewed"); n != 0 {
			t.Errorf("prolonged %v times", n)
		}
		time.Sleep(interval)
		r.wantClosed(instanceA)
		r.reconcile(1)
		wantOnlyKey(w, instanceA)
	})
}

func TestReissueIsLoggedWithoutTheSecret(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		w.ec2.launch(instanceA)
		r := w.start()
		got := r.reissue(instanceA)
		if text := w.log.String(); strings.Count(text, "bootstrap token reissued") != 1 || !strings.Contains(text, got.TokenID) {
			t.Errorf("log: %s", text)
		}
		w.wantNoSecretsLogged()
	})
}

// What makes it fail again and again is no endless loop.
func TestReissueGivesUp(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		w.ec2.launch(instanceA)
		r, other := w.start(), w.start()
		r.setHook(func(_ context.Context, c apitest.Call) error {
			if c.Verb == "create" {
				other.handleUntilSettled(instanceA, instance.Running)
			}
			return nil
		})
		got, err := r.Reissue(t.Context(), instanceA)
		if err == nil || got != (lifecycle.Reissued{}) || r.client.Count("create") > 10 {
			t.Errorf("%+v, %v after %d tries", got, err, r.client.Count("create"))
		}
		r.setHook(nil)
		w.wantComplete(instanceA)
		w.wantReissued(instanceA, r.reissue(instanceA))
	})
}
