package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

var dedicated = corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}

// restricted is the worker profile with a label and a taint that a kubelet may
// not choose.
func restricted(t *testing.T) lifecycle.Profile {
	t.Helper()
	p := worker(t)
	p.Restrictions = node.Restrictions{Labels: map[string]string{"tier": "gold"}, Taints: []corev1.Taint{dedicated}}
	return p
}

func (w *world) isRestricted(name string) bool {
	n, err := w.nodes.Get(context.Background(), name, getOptions)
	return err == nil && n.Labels["tier"] == "gold" && slices.Contains(n.Spec.Taints, dedicated)
}

func (w *world) wantRestricted(name string, want bool) {
	w.t.Helper()
	if w.isRestricted(name) != want {
		n, err := w.nodes.Get(context.Background(), name, getOptions)
		w.t.Errorf("restricted %v: %v, %v", !want, n, err)
	}
}

// nodeCalls are the replica's calls about Nodes.
func (r *replica) nodeCalls() []apitest.Call {
	return slices.DeleteFunc(r.client.Calls(), func(c apitest.Call) bool { return c.Resource != apitest.Nodes })
}

// failNodes lets all writes of Nodes fail.
func (r *replica) failNodes(err error) {
	r.setHook(func(_ context.Context, c apitest.Call) error {
		if c.Resource == apitest.Nodes && c.Verb != "get" {
			return err
		}
		return nil
	})
}

func TestANodeIsRestrictedWhenItBecomesReady(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.SetProfiles([]lifecycle.Profile{restricted(t)})
		r.admit(instanceA)
		r.grant(instanceA)
		defer r.run()()
		w.join(instanceA, corev1.ConditionFalse)
		synctest.Wait()
		w.wantRestricted(string(instanceA), false)
		r.client.Forget()
		w.setReady(instanceA, corev1.ConditionTrue)
		synctest.Wait()
		w.wantRestricted(string(instanceA), true)
		wantOnlyKey(w, instanceA)
		var order []string
		for _, c := range r.client.Calls() {
			if c.Verb == "patch" || c.Verb == "delete" {
				order = append(order, c.Verb)
			}
		}
		if !slices.Equal(order, []string{"patch", "delete"}) {
			t.Errorf("calls %v", r.client.Calls())
		}
		n, err := w.nodes.Get(t.Context(), string(instanceA), getOptions)
		if err != nil || n.Labels[label] != string(instanceA) || len(n.Status.Conditions) != 1 {
			t.Errorf("more was changed: %+v, %v", n, err)
		}
		if got := strings.Count(w.log.String(), "node given its restricted labels and taints"); got != 1 {
			t.Errorf("logged %d times", got)
		}
		// Nothing more is asked, or written, while nothing changes.
		r.client.Forget()
		time.Sleep(3 * interval)
		if calls := r.nodeCalls(); len(calls) != 0 {
			t.Errorf("calls %v", calls)
		}
	})
}

func TestAPassRestricts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(*world, *replica)
		want    bool
	}{
		"the token was revoked by a replica that failed to": {func(w *world, r *replica) {
			other := w.start()
			other.SetProfiles([]lifecycle.Profile{restricted(w.t)})
			other.failNodes(errors.New("down"))
			w.join(instanceA, corev1.ConditionTrue)
			other.reconcile(1)
			wantOnlyKey(w, instanceA)
		}, true},
		"the token was revoked by a replica of other profiles": {func(w *world, _ *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			other := w.start()
			other.SetProfiles(nil)
			other.reconcile(1)
			wantOnlyKey(w, instanceA)
		}, true},
		"the token vanished": {func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionTrue); w.removeClaims(instanceA) }, true},
		"there was never any": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			w.removeClaims(instanceA)
			w.freeKeys(instanceA)
			clear(w.truth.marked)
		}, true},
		"the kubelet took the label back": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			r.reconcile(1)
			w.editNode(string(instanceA), func(n *corev1.Node) { n.Labels["tier"] = "none" })
		}, true},
		"a hand removed the taint": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			r.reconcile(1)
			w.editNode(string(instanceA), func(n *corev1.Node) { n.Spec.Taints = nil })
		}, true},
		"a reissued token stays": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			time.Sleep(time.Second)
			r.reissue(instanceA)
		}, true},
		"the node was replaced": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			r.reconcile(1)
			if err := w.nodes.Delete(context.Background(), string(instanceA), deleteOptions); err != nil {
				w.t.Error(err)
			}
			w.join(instanceA, corev1.ConditionTrue)
		}, true},
		"its tags changed, its token names the profile": {func(w *world, _ *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
		}, true},
		"its tags changed, no token": {func(w *world, _ *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			w.removeClaims(instanceA)
			w.ec2.change(instanceA, func(i *instance.Instance) { i.Tags = nil })
		}, false},
		"not Ready": {func(w *world, _ *replica) { w.join(instanceA, corev1.ConditionFalse) }, false},
		"the profile was removed": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			r.SetProfiles(nil)
		}, false},
		"the profile asks for nothing": {func(w *world, r *replica) {
			w.join(instanceA, corev1.ConditionTrue)
			r.SetProfiles([]lifecycle.Profile{worker(w.t)})
		}, false},
		"stopped": {func(w *world, _ *replica) {
			w.join(instanceA, corev1.ConditionUnknown)
			w.ec2.setState(instanceA, instance.Stopped)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, w *world) {
				w.makeKeys("key-1")
				r := w.start()
				r.SetProfiles([]lifecycle.Profile{restricted(t)})
				r.admit(instanceA)
				r.grant(instanceA)
				tc.prepare(w, r)
				r.client.Forget()
				r.reconcile(1)
				w.wantRestricted(string(instanceA), tc.want)
				if calls := r.nodeCalls(); !tc.want && len(calls) != 0 || len(calls) > 2 {
					t.Errorf("calls %v", calls)
				}
				r.client.Forget()
				r.reconcile(1)
				if calls := r.nodeCalls(); len(calls) != 0 {
					t.Errorf("the second pass is not idle: %v", calls)
				}
			})
		})
	}
}

// Whatever keeps the node from its labels, the token goes; and they come later.
func TestAFailureToRestrictDoesNotKeepTheToken(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"forbidden":             apierrors.NewForbidden(corev1.Resource("nodes"), string(instanceA), errors.New("no")),
		"500":                   apierrors.NewInternalError(errors.New("etcd is away")),
		"conflicts without end": apierrors.NewConflict(corev1.Resource("nodes"), string(instanceA), errors.New("modified")),
		"deadline":              context.DeadlineExceeded,
	} {
		for _, reads := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					w.makeKeys("key-1")
					r := w.start()
					r.SetProfiles([]lifecycle.Profile{restricted(t)})
					r.admit(instanceA)
					r.grant(instanceA)
					defer r.run()()
					r.setHook(func(_ context.Context, c apitest.Call) error {
						if c.Resource == apitest.Nodes && (reads || c.Verb != "get") {
							return err
						}
						return nil
					})
					time.Sleep(time.Minute)
					w.join(instanceA, corev1.ConditionTrue)
					time.Sleep(time.Second) // conflicts are tried again
					synctest.Wait()
					wantOnlyKey(w, instanceA)
					r.wantClosed(instanceA)
					w.wantRestricted(string(instanceA), false)
					if !strings.Contains(w.log.String(), "level=ERROR") {
						t.Error("nobody is told")
					}
					r.setHook(nil)
					time.Sleep(interval)
					synctest.Wait()
					w.wantRestricted(string(instanceA), true)
				})
			})
		}
	}
}

// A status update of the kubelet comes between.
func TestAConflictOfARestrictionIsTriedAgain(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.SetProfiles([]lifecycle.Profile{restricted(t)})
		r.admit(instanceA)
		w.join(instanceA, corev1.ConditionTrue)
		conflicts := 2
		r.setHook(func(_ context.Context, c apitest.Call) error {
			if c.Verb == "patch" && conflicts > 0 {
				conflicts--
				w.editNode(string(instanceA), func(n *corev1.Node) { n.Status.Conditions[0].Message += "x" })
			}
			return nil
		})
		r.reconcile(1)
		w.wantRestricted(string(instanceA), true)
		wantOnlyKey(w, instanceA)
		if n, err := w.nodes.Get(t.Context(), string(instanceA), getOptions); err != nil || n.Status.Conditions[0].Message != "xx" {
			t.Errorf("the kubelet's status is lost: %+v, %v", n.Status, err)
		}
	})
}

func TestTheNameDecidesWhoIsRestricted(t *testing.T) {
	t.Parallel()
	const dnsName = "ip-10-0-0-1.internal"
	byDNSName := func(g lifecycle.Grant) (string, error) {
		if g.PrivateDNSName == "" {
			return "", errors.New("no private DNS name")
		}
		return g.PrivateDNSName, nil
	}
	for name, tc := range map[string]struct {
		nodeName func(lifecycle.Grant) (string, error)
		node     string
		want     bool
		log      string // besides
	}{
		"the instance id":         {nil, string(instanceA), true, ""},
		"another name":            {nil, "elsewhere", false, "level=WARN"},
		"the DNS name":            {byDNSName, dnsName, true, ""},
		"the id, not the name":    {byDNSName, string(instanceA), false, "level=WARN"},
		"nearly the DNS name":     {byDNSName, dnsName + "x", false, "level=WARN"},
		"a name that cannot be":   {func(lifecycle.Grant) (string, error) { return "", errors.New("no such field") }, string(instanceA), false, "no such field"},
		"all that a name needs":   {wholeName, "worker-us-east-2a-t3.small-" + string(instanceA), true, ""},
		"a name without anything": {func(lifecycle.Grant) (string, error) { return "", nil }, string(instanceA), false, "level=WARN"},
	} {
		for _, how := range []string{"pass", "event"} {
			t.Run(name+", by "+how, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, w *world) {
					w.makeKeys("key-1")
					r := w.start()
					p := restricted(t)
					p.NodeName = tc.nodeName
					r.SetProfiles([]lifecycle.Profile{p})
					r.admit(instanceA)
					r.grant(instanceA)
					if how == "event" {
						defer r.run()()
					}
					time.Sleep(time.Second)
					w.joinAs(tc.node, instanceA, corev1.ConditionTrue)
					synctest.Wait()
					if how == "pass" {
						r.reconcile(1)
					}
					w.wantRestricted(tc.node, tc.want)
					wantOnlyKey(w, instanceA)
					if calls := r.nodeCalls(); !tc.want && len(calls) != 0 {
						t.Errorf("calls %v", calls)
					}
					if text := w.log.String(); !strings.Contains(text, tc.log) || tc.log == "" && strings.Contains(text, "level=WARN") {
						t.Errorf("log: %s", text)
					}
				})
			})
		}
	}
}

// Two Ready nodes say that they are the instance: the one of the right name is
// restricted, every time.
func TestTheRightOneOfTwoNodesIsRestricted(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"a-node", "z-node"} {
		for _, how := range []string{"with its token", "without"} {
			t.Run(other+", "+how, func(t *testing.T) {
				t.Parallel()
				in(t, func(_ *testing.T, w *world) {
					w.makeKeys("key-1")
					r := w.start()
					r.SetProfiles([]lifecycle.Profile{restricted(w.t)})
					r.admit(instanceA)
					if how == "without" {
						w.removeClaims(instanceA)
					}
					w.joinAs(other, instanceA, corev1.ConditionTrue)
					w.join(instanceA, corev1.ConditionTrue)
					r.reconcile(1)
					w.wantRestricted(string(instanceA), true)
					w.wantRestricted(other, false)
					wantOnlyKey(w, instanceA)
				})
			})
		}
	}
}

func wholeName(g lifecycle.Grant) (string, error) {
	if g.Token.ID() != "" || g.WireGuardConfig != nil {
		return "", errors.New("there is a secret in it")
	}
	return g.Profile + "-" + g.Zone + "-" + g.InstanceType + "-" + string(g.Instance), nil
}

// The node of an instance that was admitted before EC2 told its DNS name.
func TestANameThatCameLater(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		p := restricted(t)
		p.NodeName = func(g lifecycle.Grant) (string, error) { return g.PrivateDNSName, nil }
		r.SetProfiles([]lifecycle.Profile{p})
		inst := w.ec2.launch(instanceA)
		w.ec2.change(instanceA, func(i *instance.Instance) { i.PrivateDNSName = "" })
		r.admit(instanceA)
		w.ec2.launch(instanceA)
		w.joinAs(inst.PrivateDNSName, instanceA, corev1.ConditionTrue)
		r.reconcile(1) // the token does not say the name, EC2 does
		w.wantRestricted(inst.PrivateDNSName, true)
		wantOnlyKey(w, instanceA)
	})
}

func TestRestrictionsOfEachProfileGoToItsOwn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1", "key-2")
		r := w.start()
		gpu := profile(t, "gpu", instance.Condition{Key: "role", Values: []string{"gpu"}})
		gpu.Restrictions = restricted(t).Restrictions
		r.SetProfiles([]lifecycle.Profile{gpu, worker(t)})
		w.ec2.launch(instanceB)
		w.ec2.change(instanceB, func(i *instance.Instance) { i.Tags = map[string]string{"role": "gpu"} })
		for _, id := range []instance.ID{instanceA, instanceB} {
			r.admit(id)
			w.join(id, corev1.ConditionTrue)
		}
		r.reconcile(2)
		w.wantRestricted(string(instanceA), false)
		w.wantRestricted(string(instanceB), true)
	})
}

// The node of one that died while it was being restricted.
func TestANodeThatGoesIsNotRestricted(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, w *world) {
		w.makeKeys("key-1")
		r := w.start()
		r.SetProfiles([]lifecycle.Profile{restricted(t)})
		r.admit(instanceA)
		w.join(instanceA, corev1.ConditionTrue)
		r.setHook(func(ctx context.Context, c apitest.Call) error {
			if c.Resource == apitest.Nodes && c.Verb == "get" {
				_ = w.nodes.Delete(ctx, string(instanceA), deleteOptions)
			}
			return nil
		})
		r.reconcile(1)
		if w.hasNode(instanceA) {
			t.Error("the node is back")
		}
		if text := w.log.String(); strings.Contains(text, "not reconciled") {
			t.Errorf("log: %s", text)
		}
	})
}
