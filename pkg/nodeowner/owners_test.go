package nodeowner

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/apitest"
	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
	"dynk8s.du5t1n.me/provisioner/pkg/node"
	"dynk8s.du5t1n.me/provisioner/pkg/nodecertificate"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

const (
	instanceA instance.ID = "i-0000000000000000a"
	instanceB instance.ID = "i-0000000000000000b"
)

var errAway = errors.New("away")

// facts are what all there is to know says; each test changes one of them.
type facts struct {
	claim    bootstraptoken.Claim
	claimErr error
	closed   bool
	nameErr  error
	nodeOf   map[string]instance.ID // "" for one that is not in EC2
	inst     instance.Instance
	instErr  error
	notOurs  bool
	keys     []wireguardkey.Key
	keysErr  error
	hosts    hostsFunc
	named    node.Node // of any name; none when it has no name
	namedErr error
}

type hostsFunc func(tokenID string) (bootstraptoken.HostToken, error)

func (f hostsFunc) ByTokenID(_ context.Context, tokenID string) (bootstraptoken.HostToken, error) {
	if f == nil {
		return bootstraptoken.HostToken{}, bootstraptoken.ErrNotFound
	}
	return f(tokenID)
}

func (f *facts) Named(context.Context, string) (node.Node, bool, error) {
	return f.named, f.named.Name != "", f.namedErr
}

func (f *facts) ByTokenID(context.Context, string) (bootstraptoken.Claim, error) {
	return f.claim, f.claimErr
}

func (f *facts) InstanceOf(name string) (instance.ID, bool, bool) {
	id, found := f.nodeOf[name]
	return id, id != "", found
}

func (f *facts) Held(context.Context, instance.ID) ([]wireguardkey.Key, error) {
	return f.keys, f.keysErr
}

func (f *facts) Instance(context.Context, instance.ID) (instance.Instance, error) {
	return f.inst, f.instErr
}

func (f *facts) OpenFor(bootstraptoken.Claim) error {
	if f.closed {
		return lifecycle.ErrClosed
	}
	return nil
}

func (f *facts) ProfileOf(map[string]string) (lifecycle.Profile, bool) {
	return lifecycle.Profile{Name: "worker"}, !f.notOurs
}

func (f *facts) NodeName(g lifecycle.Grant) (string, error) {
	return g.Profile + "-" + string(g.Instance), f.nameErr
}

func (f *facts) owners() Owners {
	return Owners{Claims: f, Hosts: f.hosts, Nodes: f, Keys: f, Instances: f, Lifecycle: f, Names: f}
}

// newFacts are those of an instance that joins.
func newFacts(t *testing.T) *facts {
	t.Helper()
	return &facts{
		claim:  bootstraptoken.Claim{InstanceID: instanceA, Profile: "worker", Expires: time.Now().Add(time.Hour)},
		nodeOf: map[string]instance.ID{"worker-" + string(instanceA): instanceA, "home": ""},
		inst:   instance.Instance{ID: instanceA, State: instance.Running, PrivateDNSName: "ip-10-0-0-1.internal"},
		keys:   []wireguardkey.Key{key(t, instanceA, "10.99.0.7/32", false), key(t, instanceA, "10.99.0.8/32", true)},
	}
}

// key is a key of the instance, handed out or not.
func key(t *testing.T, id instance.ID, address string, marked bool) wireguardkey.Key {
	t.Helper()
	secrets := apitest.NewServer().Client(nil).Secrets("dynk8s")
	annotations := map[string]string{}
	if marked {
		annotations["dynk8s.du5t1n.me/handed-out-to"] = string(id)
	}
	_, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key", Labels: map[string]string{wireguardkey.InstanceLabel: string(id)}, Annotations: annotations},
		Type:       wireguardkey.SecretType,
		Data:       map[string][]byte{"wireguard-config": []byte("[Interface]\nAddress = " + address + "\n")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := wireguardkey.NewPool(secrets, nil, wireguardkey.Config{}).Held(t.Context(), id)
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	return held[0]
}

// Kinds of answer.
const (
	yes     = "yes"
	refused = "refused"
	notOurs = "not ours"
	later   = "later"
)

func kindOf(err error) string {
	var r nodecertificate.Refusal
	switch {
	case err == nil:
		return yes
	case errors.Is(err, nodecertificate.ErrNotOurs):
		return notOurs
	case errors.As(err, &r):
		return refused
	default:
		return later
	}
}

func TestOfToken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*facts)
		want   string
	}{
		"joining":                    {func(*facts) {}, yes},
		"no such token":              {func(f *facts) { f.claimErr = bootstraptoken.ErrNotFound }, notOurs},
		"API server is away":         {func(f *facts) { f.claimErr = errAway }, later},
		"expired":                    {func(f *facts) { f.claim.Expires = time.Now() }, refused},
		"joined, or going":           {func(f *facts) { f.closed = true }, refused},
		"terminated":                 {func(f *facts) { f.inst.State = instance.Terminated }, refused},
		"stopped":                    {func(f *facts) { f.inst.State = instance.Stopped }, refused},
		"EC2 is away":                {func(f *facts) { f.instErr = errAway }, later},
		"no name can be made":        {func(f *facts) { f.nameErr = errAway }, later},
		"name is another instance's": {func(f *facts) { f.nodeOf["worker-"+string(instanceA)] = instanceB }, refused},
		"name is a node at home":     {func(f *facts) { f.nodeOf["worker-"+string(instanceA)] = "" }, refused},
		"joins again":                {func(f *facts) { f.nodeOf["worker-"+string(instanceA)] = instanceA }, yes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFacts(t)
			tt.change(f)
			got, err := f.owners().OfToken(t.Context(), "abcdef")
			if kindOf(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if tt.want == yes && (got.InstanceID != instanceA || got.NodeName != "worker-"+string(instanceA) || got.DNSNames != nil || got.Addresses != nil) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestOfNode(t *testing.T) {
	t.Parallel()
	name := "worker-" + string(instanceA)
	for title, tt := range map[string]struct {
		node   string
		change func(*facts)
		want   string
	}{
		"its own":                  {name, func(*facts) {}, yes},
		"not seen yet":             {"new", func(*facts) {}, later},
		"not in EC2":               {"home", func(*facts) {}, notOurs},
		"another account's":        {name, func(f *facts) { f.instErr = instance.ErrNotFound }, notOurs},
		"EC2 is away":              {name, func(f *facts) { f.instErr = errAway }, later},
		"no profile matches":       {name, func(f *facts) { f.notOurs = true }, notOurs},
		"claims another's id":      {"mine", func(f *facts) { f.nodeOf["mine"] = instanceA }, refused},
		"terminated":               {name, func(f *facts) { f.inst.State = instance.Terminated }, refused},
		"no name can be made":      {name, func(f *facts) { f.nameErr = errAway }, later},
		"keys cannot be read":      {name, func(f *facts) { f.keysErr = errAway }, later},
		"no key":                   {name, func(f *facts) { f.keys = nil }, notOurs},
		"no key was handed out":    {name, func(f *facts) { f.keys = f.keys[:1] }, notOurs},
		"key without an address":   {name, func(f *facts) { f.keys = []wireguardkey.Key{key(t, instanceA, "", true)} }, later},
		"handed out to another":    {name, func(f *facts) { f.keys = []wireguardkey.Key{key(t, instanceB, "10.99.0.9", true)} }, notOurs},
		"without private DNS name": {name, func(f *facts) { f.inst.PrivateDNSName = "" }, yes},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			f := newFacts(t)
			tt.change(f)
			got, err := f.owners().OfNode(t.Context(), tt.node)
			if kindOf(err) != tt.want {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if tt.want != yes {
				return
			}
			names := 1
			if f.inst.PrivateDNSName != "" {
				names = 2
			}
			if got.NodeName != name || len(got.DNSNames) != names || got.DNSNames[0] != string(instanceA) ||
				len(got.Addresses) != 1 || got.Addresses[0] != netip.MustParseAddr("10.99.0.8") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
