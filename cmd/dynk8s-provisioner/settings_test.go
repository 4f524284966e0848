package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/config"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
)

func testProfile() config.Profile {
	return config.Profile{
		Name:     "worker",
		Selector: []config.Condition{{Key: "Name", Values: []string{"k8s-*"}}, {Key: "retired", Absent: true}},
		BootstrapToken: config.BootstrapToken{
			TTL: time.Hour, ExtraGroups: []string{"system:bootstrappers:a"}, Signing: true,
		},
		WireGuard: config.WireGuard{KeySelector: "site=home"},
		Node: config.Node{
			NameTemplate:     "{{.InstanceID}}",
			Labels:           map[string]string{"a": "b"},
			Taints:           []config.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}},
			RestrictedLabels: map[string]string{"c": "d"},
			RestrictedTaints: []config.Taint{{Key: "r", Effect: "NoExecute"}},
			KubeletExtraArgs: []config.Arg{{Name: "max-pods", Value: "50"}},
			CRISocket:        "unix:///run/x.sock",
		},
	}
}

func TestLifecycleProfiles(t *testing.T) {
	t.Parallel()
	all := testProfile()
	all.Name, all.Selector, all.MatchAll, all.WireGuard.KeySelector = "all", nil, true, ""
	byDefault := all
	byDefault.Name, byDefault.BootstrapToken.ExtraGroups = "default", nil
	cfg := &config.Config{
		Profiles:     []config.Profile{testProfile(), all, byDefault},
		Certificates: config.Certificates{Approve: true, Group: "system:bootstrappers:ours"},
	}
	got, err := lifecycleProfiles(cfg, func(lifecycle.Grant) (string, error) { return "name", nil })
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	p := got[0]
	if want := (bootstraptoken.Settings{TTL: time.Hour, ExtraGroups: []string{"system:bootstrappers:a"}, Signing: true}); p.Name != "worker" || !reflect.DeepEqual(p.Token, want) {
		t.Errorf("%+v", p)
	}
	if !p.Selector.Matches(map[string]string{"Name": "k8s-1"}) || p.Selector.Matches(map[string]string{"Name": "k8s-1", "retired": ""}) || p.Selector.MatchesAll() {
		t.Error("the selector is another")
	}
	if !p.Keys.Matches(labels.Set{"site": "home"}) || p.Keys.Matches(labels.Set{}) {
		t.Error("the key selector is another")
	}
	if want := (node.Restrictions{
		Labels: map[string]string{"c": "d"},
		Taints: []corev1.Taint{{Key: "r", Effect: corev1.TaintEffectNoExecute}},
	}); !reflect.DeepEqual(p.Restrictions, want) {
		t.Errorf("%+v", p.Restrictions)
	}
	if name, err := p.NodeName(lifecycle.Grant{}); name != "name" || err != nil {
		t.Errorf("%s, %v", name, err)
	}
	if groups := got[2].Token.ExtraGroups; !slices.Equal(groups, []string{"system:bootstrappers:ours"}) {
		t.Errorf("groups by default: %v", groups)
	}
	if !got[1].Selector.MatchesAll() || !got[1].Keys.Matches(labels.Set{}) {
		t.Error("match all does not")
	}
}

func TestLifecycleProfilesErrors(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*config.Profile){
		"no selector":    func(p *config.Profile) { p.Selector = nil },
		"key selector":   func(p *config.Profile) { p.WireGuard.KeySelector = "==" },
		"odd condition ": func(p *config.Profile) { p.Selector[0] = config.Condition{Key: "a"} },
	} {
		p := testProfile()
		damage(&p)
		if _, err := lifecycleProfiles(&config.Config{Profiles: []config.Profile{p}}, nil); err == nil || !strings.Contains(err.Error(), "profile worker") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNodeSettings(t *testing.T) {
	t.Parallel()
	got, err := nodeSettings([]config.Profile{testProfile()})
	want := artifact.NodeSettings{
		NameTemplate:     "{{.InstanceID}}",
		Labels:           map[string]string{"a": "b"},
		Taints:           []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
		KubeletExtraArgs: []artifact.Arg{{Name: "max-pods", Value: "50"}},
		CRISocket:        "unix:///run/x.sock",
	}
	if err != nil || !reflect.DeepEqual(got, map[string]artifact.NodeSettings{"worker": want}) {
		t.Errorf("%+v, %v", got, err)
	}
	bad := testProfile()
	bad.Node.NameTemplate = "{{"
	if _, err := nodeSettings([]config.Profile{bad}); err == nil || !strings.Contains(err.Error(), "profile worker") {
		t.Errorf("a template that does not parse: %v", err)
	}
}

// Every field of the configured profile must arrive somewhere; this reminds
// whoever adds one.
func TestNoFieldOfAProfileIsForgotten(t *testing.T) {
	t.Parallel()
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[config.Profile](): 6, reflect.TypeFor[config.BootstrapToken](): 3,
		reflect.TypeFor[config.WireGuard](): 1, reflect.TypeFor[config.Node](): 7,
	} {
		if got := typ.NumField(); got != want {
			t.Errorf("%s has %d fields, settings.go knows %d", typ, got, want)
		}
	}
}
