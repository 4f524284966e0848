package artifact

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"dynk8s.du5t1n.me/provisioner/pkg/bootstraptoken"
	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

const (
	testID      = instance.ID("i-0123456789abcdef0")
	tokenSecret = "kq4gihvszzgn1p0r"
	privateKey  = "aGVsbG8gdGhpcyBpcyBub3QgYSByZWFsIGtleSEhISE="
	testServer  = "https://203.0.113.10:6443"
)

const wireGuardConfig = `[Interface]
PrivateKey = ` + privateKey + `
Address = 10.99.0.7/24

[Peer]
PublicKey = cGVlcidzIHB1YmxpYyBrZXksIG5vdCBhIHJlYWwgb25l
Endpoint = vpn.example.org:51820
AllowedIPs = 10.99.0.0/24
`

func testGrant() lifecycle.Grant {
	return lifecycle.Grant{
		Instance:        testID,
		Profile:         "worker",
		Zone:            "us-east-2a",
		PrivateDNSName:  "ip-10-0-12-34.us-east-2.compute.internal",
		InstanceType:    "t3.small",
		Token:           bootstraptoken.NewToken("5emitj", tokenSecret),
		WireGuardConfig: []byte(wireGuardConfig),
	}
}

func fullSettings() NodeSettings {
	return NodeSettings{
		NameTemplate: "{{.Profile}}-{{.InstanceID}}",
		Labels:       map[string]string{"du5t1n.me/pool": "burst", "node.kubernetes.io/exclude-from-external-load-balancers": ""},
		Taints: []corev1.Taint{
			{Key: "du5t1n.me/cloud", Value: "ec2", Effect: corev1.TaintEffectNoSchedule},
			{Key: "du5t1n.me/cloud", Value: "ec2", Effect: corev1.TaintEffectNoExecute},
			{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule},
		},
		KubeletExtraArgs: []Arg{
			{Name: "system-reserved", Value: "cpu=100m,memory=256Mi"},
			{Name: "eviction-hard", Value: "memory.available<5%"},
			{Name: "v", Value: "2"},
		},
		CRISocket: "unix:///run/containerd/containerd.sock",
	}
}

func testCluster(t testing.TB) Cluster {
	return Cluster{Server: testServer, CAData: readFile(t, "ca.crt")}
}

// fixedGrants knows one grant.
type fixedGrants struct {
	grant lifecycle.Grant
}

func (f fixedGrants) Grant(_ context.Context, id instance.ID) (lifecycle.Grant, error) {
	if id != f.grant.Instance {
		return lifecycle.Grant{}, lifecycle.ErrNotAllocated
	}
	return f.grant, nil
}

// failingGrants always fails.
type failingGrants struct{ err error }

func (f failingGrants) Grant(context.Context, instance.ID) (lifecycle.Grant, error) {
	return lifecycle.Grant{}, f.err
}

// mixedUpGrants answers with the grant of another instance.
type mixedUpGrants struct{}

func (mixedUpGrants) Grant(context.Context, instance.ID) (lifecycle.Grant, error) {
	g := testGrant()
	g.Instance = "i-11111111111111111"
	return g, nil
}

// fixedCluster always answers.
type fixedCluster struct{ cluster Cluster }

func (f fixedCluster) ClusterInfo(context.Context) (Cluster, error) { return f.cluster, nil }

// failingCluster always fails.
type failingCluster struct{ err error }

func (f failingCluster) ClusterInfo(context.Context) (Cluster, error) { return Cluster{}, f.err }

// wantError fails the test unless err says all of parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
