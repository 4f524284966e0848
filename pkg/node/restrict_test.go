package node

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
)

const hostname = "kubernetes.io/hostname"

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

var (
	dedicated = taint("dedicated", "gpu", corev1.TaintEffectNoSchedule)
	role      = map[string]string{"node-role.kubernetes.io/worker": ""}
	both      = Restrictions{Labels: map[string]string{"tier": "gold"}, Taints: []corev1.Taint{dedicated}}
)

func TestRestrict(t *testing.T) {
	t.Parallel()
	added := metav1.NewTime(readyAt)
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	for name, tc := range map[string]struct {
		labels       map[string]string // besides the hostname
		taints       []corev1.Taint
		restrictions Restrictions
		wantLabels   map[string]string
		wantTaints   []corev1.Taint
		unchanged    bool
	}{
		"label and taint": {nil, nil, both, map[string]string{"tier": "gold"}, []corev1.Taint{dedicated}, false},
		"labels only": {
			nil, []corev1.Taint{notReady}, Restrictions{Labels: map[string]string{"tier": "gold", "site": "home"}},
			map[string]string{"tier": "gold", "site": "home"}, []corev1.Taint{notReady}, false,
		},
		"taints only": {
			map[string]string{"x": "y"}, nil, Restrictions{Taints: []corev1.Taint{dedicated}},
			map[string]string{"x": "y"}, []corev1.Taint{dedicated}, false,
		},
		"taints only, labels empty": {
			map[string]string{"x": "y"}, nil, Restrictions{Labels: map[string]string{}, Taints: []corev1.Taint{dedicated}},
			map[string]string{"x": "y"}, []corev1.Taint{dedicated}, false,
		},
		"others are kept": {
			map[string]string{"x": "y", "tier": "gold"}, []corev1.Taint{notReady, taint("a", "b", corev1.TaintEffectNoSchedule)}, both,
			map[string]string{"x": "y", "tier": "gold"}, []corev1.Taint{notReady, taint("a", "b", corev1.TaintEffectNoSchedule), dedicated}, false,
		},
		"the kubelet chose another value": {
			map[string]string{"tier": "platinum"}, []corev1.Taint{dedicated}, both,
			map[string]string{"tier": "gold"}, []corev1.Taint{dedicated}, false,
		},
		"the kubelet chose the empty value": {
			map[string]string{"tier": ""}, []corev1.Taint{dedicated}, both,
			map[string]string{"tier": "gold"}, []corev1.Taint{dedicated}, false,
		},
		"a label of the empty value": {nil, nil, Restrictions{Labels: role}, role, nil, false},
		"a taint of the empty value": {
			nil, []corev1.Taint{dedicated}, Restrictions{Labels: role, Taints: []corev1.Taint{taint("dedicated", "", corev1.TaintEffectNoSchedule)}},
			role, []corev1.Taint{taint("dedicated", "", corev1.TaintEffectNoSchedule)}, false,
		},
		"a taint of the same key and effect is replaced": {
			nil, []corev1.Taint{taint("dedicated", "none", corev1.TaintEffectNoSchedule), notReady}, both,
			map[string]string{"tier": "gold"}, []corev1.Taint{notReady, dedicated}, false,
		},
		"a taint of the same key and another effect is kept": {
			nil, []corev1.Taint{taint("dedicated", "gpu", corev1.TaintEffectNoExecute)}, both,
			map[string]string{"tier": "gold"}, []corev1.Taint{taint("dedicated", "gpu", corev1.TaintEffectNoExecute), dedicated}, false,
		},
		"one taint of two": {
			nil, []corev1.Taint{dedicated, notReady},
			Restrictions{Labels: role, Taints: []corev1.Taint{taint("b", "c", corev1.TaintEffectPreferNoSchedule), dedicated}},
			role, []corev1.Taint{dedicated, notReady, taint("b", "c", corev1.TaintEffectPreferNoSchedule)}, false,
		},
		"a taint that is there since some time": {
			map[string]string{"tier": "gold"}, []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added}}, both,
			map[string]string{"tier": "gold"}, []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added}}, true,
		},
		"all there":      {map[string]string{"tier": "gold", "x": "y"}, []corev1.Taint{notReady, dedicated}, both, map[string]string{"tier": "gold", "x": "y"}, []corev1.Taint{notReady, dedicated}, true},
		"nothing wanted": {map[string]string{"x": "y"}, []corev1.Taint{notReady}, Restrictions{}, map[string]string{"x": "y"}, []corev1.Taint{notReady}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := makeNode("n", providerID(instanceA), corev1.ConditionTrue)
			maps.Copy(n.Labels, tc.labels)
			n.Spec.Taints = tc.taints
			c := newCluster(t, n)
			before := c.get(t, "n")
			changed, err := c.Restrict(t.Context(), instanceA, "n", tc.restrictions)
			if err != nil || changed == tc.unchanged {
				t.Errorf("changed %v, %v", changed, err)
			}
			after := c.get(t, "n")
			want := maps.Clone(tc.wantLabels)
			want[hostname] = "n"
			if !maps.Equal(after.Labels, want) {
				t.Errorf("labels %v, want %v", after.Labels, want)
			}
			if !slices.EqualFunc(after.Spec.Taints, tc.wantTaints, sameTaint) {
				t.Errorf("taints %v, want %v", after.Spec.Taints, tc.wantTaints)
			}
			if after.UID != before.UID || after.Spec.ProviderID != before.Spec.ProviderID || len(after.Status.Conditions) != 2 {
				t.Errorf("more was changed: %+v", after)
			}
			c.client.Forget()
			if again, err := c.Restrict(t.Context(), instanceA, "n", tc.restrictions); again || err != nil || c.client.Count() != 0 {
				t.Errorf("again: %v, %v, %v", again, err, c.client.Calls())
			}
		})
	}
}

func sameTaint(a, b corev1.Taint) bool {
	return a.MatchTaint(&b) && a.Value == b.Value && (a.TimeAdded == nil) == (b.TimeAdded == nil)
}

func (c *cluster) get(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := c.hand.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// change changes a Node by hand.
func (c *cluster) change(t *testing.T, name string, f func(*corev1.Node)) {
	t.Helper()
	n := c.get(t, name)
	f(n)
	if _, err := c.hand.Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// beforeEach runs f before each call with the verb, up to n times.
func (c *cluster) beforeEach(verb string, n int, f func()) {
	c.hook = func(_ context.Context, call apitest.Call) error {
		if call.Verb == verb && n > 0 {
			n--
			f()
		}
		return nil
	}
}

func (c *cluster) wantRestricted(t *testing.T, name string, r Restrictions) {
	t.Helper()
	if n := c.get(t, name); !r.metBy(n) {
		t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
	}
}

// recorder keeps the patches that are sent.
type recorder struct {
	Client
	kinds   []types.PatchType
	patches [][]byte
	options []metav1.PatchOptions
	sub     []string
}

func (r *recorder) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*corev1.Node, error) {
	r.kinds, r.patches = append(r.kinds, kind), append(r.patches, data)
	r.options, r.sub = append(r.options, opts), append(r.sub, sub...)
	return r.Client.Patch(ctx, name, kind, data, opts, sub...)
}

// A field that this program's version of the type does not know must not be in
// the patch, nor anything else that is not to change: what is not named stays.
func TestThePatchNamesOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		restrictions Restrictions
		labels, spec []string
	}{
		"both":        {both, []string{"tier"}, []string{"taints"}},
		"labels only": {Restrictions{Labels: map[string]string{"tier": "gold"}}, []string{"tier"}, nil},
		"taints met":  {Restrictions{Labels: map[string]string{"tier": "gold"}, Taints: []corev1.Taint{taint("a", "b", corev1.TaintEffectNoSchedule)}}, []string{"tier"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := makeNode("n", providerID(instanceA), corev1.ConditionTrue)
			n.Spec.Taints = []corev1.Taint{taint("a", "b", corev1.TaintEffectNoSchedule)}
			c := newCluster(t, n)
			sent := &recorder{Client: c.Nodes.client}
			c.Nodes.client = sent
			before := c.get(t, "n")
			if changed, err := c.Restrict(t.Context(), instanceA, "n", tc.restrictions); !changed || err != nil {
				t.Fatal(changed, err)
			}
			if !slices.Equal(sent.kinds, []types.PatchType{types.StrategicMergePatchType}) || len(sent.sub) != 0 {
				t.Fatalf("patches %v of subresources %q", sent.kinds, sent.sub)
			}
			if opts := sent.options[0]; opts.Force != nil || len(opts.DryRun) != 0 {
				t.Errorf("options %+v", opts)
			}
			var patch map[string]map[string]any
			if err := json.Unmarshal(sent.patches[0], &patch); err != nil {
				t.Fatal(err)
			}
			metadata := patch["metadata"]
			if metadata["uid"] != string(before.UID) || metadata["resourceVersion"] != before.ResourceVersion {
				t.Errorf("it would apply to another Node, or another version: %s", sent.patches[0])
			}
			labels, _ := metadata["labels"].(map[string]any)
			if got := slices.Sorted(maps.Keys(labels)); !slices.Equal(got, tc.labels) {
				t.Errorf("labels %v", got)
			}
			if got := slices.Sorted(maps.Keys(patch["spec"])); !slices.Equal(got, tc.spec) {
				t.Errorf("spec %v", got)
			}
			if len(metadata) != 3 || len(patch) > 2 {
				t.Errorf("more is in it: %s", sent.patches[0])
			}
		})
	}
}

func TestRestrictDoesNotChangeWhatItIsGiven(t *testing.T) {
	t.Parallel()
	n := makeNode("n", providerID(instanceA), corev1.ConditionTrue)
	n.Spec.Taints = []corev1.Taint{taint("dedicated", "none", corev1.TaintEffectNoSchedule), taint("a", "b", corev1.TaintEffectNoExecute)}
	c := newCluster(t, n)
	c.view.Hold()
	object, _, _ := c.view.Indexer().GetByKey("n")
	cached := object.(*corev1.Node).DeepCopy()
	given := Restrictions{Labels: map[string]string{"tier": "gold"}, Taints: make([]corev1.Taint, 0, 8)}
	given.Taints = append(given.Taints, dedicated)
	if changed, err := c.Restrict(t.Context(), instanceA, "n", given); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if len(given.Labels) != 1 || len(given.Taints) != 1 || given.Taints[0] != dedicated || given.Taints[:2][1] != (corev1.Taint{}) {
		t.Errorf("%+v", given)
	}
	if now := object.(*corev1.Node); !maps.Equal(now.Labels, cached.Labels) || !slices.Equal(now.Spec.Taints, cached.Spec.Taints) {
		t.Errorf("the cache was changed: %v %v", now.Labels, now.Spec.Taints)
	}
}

func TestRestrictWithACacheThatIsBehind(t *testing.T) {
	t.Parallel()
	t.Run("it lacks what is there", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.view.Hold()
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
			t.Fatal(changed, err)
		}
		c.client.Forget()
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil || c.client.Count("patch") != 0 {
			t.Errorf("%v, %v, %v", changed, err, c.client.Calls())
		}
	})
	t.Run("it does not hold the Node yet", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.view.Hold()
		c.put(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
			t.Error(changed, err)
		}
		c.wantRestricted(t, "n", both)
	})
	t.Run("it holds what is gone again", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
			t.Fatal(changed, err)
		}
		c.view.Hold()
		c.change(t, "n", func(n *corev1.Node) { delete(n.Labels, "tier") })
		c.view.Release()
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
			t.Error(changed, err)
		}
		c.wantRestricted(t, "n", both)
	})
}

func TestRestrictOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil {
		t.Errorf("never there: %v, %v", changed, err)
	}
	c.put(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	c.view.Hold()
	c.beforeEach("get", 1, func() { c.remove(t, "n") })
	if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil || c.client.Count("patch") != 0 {
		t.Errorf("gone: %v, %v, %v", changed, err, c.client.Calls())
	}
	if c.exists("n") {
		t.Error("it is there again")
	}
}

// The kubelet writes the status all the time, and others write taints.
func TestRestrictTriesAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	cordoned := corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		meddle func(*corev1.Node)
		kept   func(*corev1.Node) bool
	}{
		"a status": {
			func(n *corev1.Node) { n.Status.Conditions[0].Message += "x" },
			func(n *corev1.Node) bool { return n.Status.Conditions[0].Message == "xx" },
		},
		"a taint": {
			func(n *corev1.Node) {
				n.Spec.Unschedulable = true
				n.Spec.Taints = append(n.Spec.Taints, cordoned)
				cordoned.Key += "-" // the second time another one
			},
			func(n *corev1.Node) bool { return n.Spec.Unschedulable && len(n.Spec.Taints) == 3 },
		},
		"a label": {
			func(n *corev1.Node) { n.Labels["x"+n.ResourceVersion] = "y" },
			func(n *corev1.Node) bool { return len(n.Labels) == 4 },
		},
		"our label, by the kubelet": {
			func(n *corev1.Node) { n.Labels["tier"] = "mine" + n.ResourceVersion },
			func(n *corev1.Node) bool { return n.Labels["tier"] == "gold" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
				c.beforeEach("patch", 2, func() { c.change(t, "n", tc.meddle) })
				if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil || c.client.Count("patch") != 3 {
					t.Errorf("%v, %v, %v", changed, err, c.client.Calls())
				}
				c.wantRestricted(t, "n", both)
				if n := c.get(t, "n"); !tc.kept(n) {
					t.Errorf("what another wrote is lost: %+v", n)
				}
			})
		})
	}
}

// Another replica does the same: whoever comes second finds nothing to do.
func TestRestrictByTwoAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		other := New(c.hand, c.view.Indexer())
		c.beforeEach("patch", 1, func() {
			if changed, err := other.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
				t.Error(changed, err)
			}
		})
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil {
			t.Errorf("%v, %v", changed, err)
		}
		c.wantRestricted(t, "n", both)
	})
}

func TestRestrictGivesUpAfterConflictsWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.beforeEach("patch", 1000, func() { c.change(t, "n", func(n *corev1.Node) { n.Status.Conditions[0].Message += "x" }) })
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || !apierrors.IsConflict(err) {
			t.Errorf("%v, %v", changed, err)
		}
		if n := c.client.Count("patch"); n < 3 || n > 20 || time.Since(start) > time.Second {
			t.Errorf("%d patches in %v", n, time.Since(start))
		}
	})
}

func TestRestrictErrors(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no"))
	for _, verb := range []string{"get", "patch"} {
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == verb {
				return forbidden
			}
			return nil
		}
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || !errors.Is(err, forbidden) || c.client.Count(verb) != 1 {
			t.Errorf("%s: %v, %v, %v", verb, changed, err, c.client.Calls())
		}
	}
	t.Run("answer lost", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.hook = func(_ context.Context, call apitest.Call) error {
			if call.Verb == "patch" {
				return apitest.AnswerLost(apierrors.NewTimeoutError("late", 1))
			}
			return nil
		}
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err == nil {
			t.Errorf("%v, %v", changed, err)
		}
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil {
			t.Errorf("again: %v, %v", changed, err)
		}
		c.wantRestricted(t, "n", both)
	})
}

// Another machine has the name by now: its Node is not to get what the first
// one's was to have.
func TestRestrictSparesAnotherMachineOfTheSameName(t *testing.T) {
	t.Parallel()
	const name = "ip-10-0-0-1"
	for _, verb := range []string{"get", "patch"} {
		for _, other := range []string{"", providerID(instanceB)} {
			t.Run("replaced before "+verb+", "+other, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, makeNode(name, providerID(instanceA), corev1.ConditionTrue))
					c.view.Hold()
					c.beforeEach(verb, 1, func() {
						c.remove(t, name)
						c.put(t, makeNode(name, other, corev1.ConditionTrue))
					})
					changed, err := c.Restrict(t.Context(), instanceA, name, both)
					if n := c.get(t, name); changed || err != nil || len(n.Labels) != 1 || len(n.Spec.Taints) != 0 {
						t.Errorf("changed %v, %v: labels %v, taints %v", changed, err, n.Labels, n.Spec.Taints)
					}
				})
			})
		}
	}
}

// The same machine, registered anew between the read and the patch.
func TestRestrictOfANodeThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
		c.beforeEach("patch", 1, func() {
			c.remove(t, "n")
			c.put(t, makeNode("n", providerID(instanceA), corev1.ConditionFalse))
		})
		if changed, err := c.Restrict(t.Context(), instanceA, "n", both); !changed || err != nil {
			t.Errorf("%v, %v", changed, err)
		}
		c.wantRestricted(t, "n", both)
	})
}

func TestRestrictOfANodeThatGoesBeforeThePatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, makeNode("n", providerID(instanceA), corev1.ConditionTrue))
	c.beforeEach("patch", 1, func() { c.remove(t, "n") })
	if changed, err := c.Restrict(t.Context(), instanceA, "n", both); changed || err != nil || c.exists("n") {
		t.Errorf("%v, %v, there %v", changed, err, c.exists("n"))
	}
}
