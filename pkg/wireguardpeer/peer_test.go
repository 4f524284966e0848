package wireguardpeer

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/artifact"
	"dynk8s.du5t1n.me/provisioner/pkg/wireguardkey"
)

const serverKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

func testPlan() Plan {
	return Plan{
		Count: 3, First: 1, NamePrefix: "wireguard-key-", Namespace: "dynk8s",
		Network: netip.MustParsePrefix("10.99.0.0/24"), Endpoint: "vpn.example.org:51820",
		ServerPublicKey: serverKey, Keepalive: 25,
	}
}

func generate(t *testing.T, p Plan) []Peer {
	t.Helper()
	peers, err := Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return peers
}

func addressesOf(peers []Peer) string {
	var list []string
	for _, p := range peers {
		list = append(list, p.Name+" "+p.Address.String())
	}
	return strings.Join(list, ", ")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"first ones":            {func(*Plan) {}, "wireguard-key-01 10.99.0.2, wireguard-key-02 10.99.0.3, wireguard-key-03 10.99.0.4"},
		"later":                 {func(p *Plan) { p.First, p.Count = 99, 2 }, "wireguard-key-99 10.99.0.100, wireguard-key-100 10.99.0.101"},
		"server between":        {func(p *Plan) { p.ServerAddress = netip.MustParseAddr("10.99.0.2") }, "wireguard-key-01 10.99.0.1, wireguard-key-02 10.99.0.3, wireguard-key-03 10.99.0.4"},
		"later, server between": {func(p *Plan) { p.ServerAddress, p.First, p.Count = netip.MustParseAddr("10.99.0.2"), 2, 1 }, "wireguard-key-02 10.99.0.3"},
		"start":                 {func(p *Plan) { p.Start, p.First = netip.MustParseAddr("10.99.0.252"), 7 }, "wireguard-key-07 10.99.0.252, wireguard-key-08 10.99.0.253, wireguard-key-09 10.99.0.254"},
		"whole network":         {func(p *Plan) { p.Network = netip.MustParsePrefix("10.99.0.0/30"); p.Count = 1 }, "wireguard-key-01 10.99.0.2"},
		"two addresses":         {func(p *Plan) { p.Network = netip.MustParsePrefix("10.99.0.0/31"); p.Count = 1 }, "wireguard-key-01 10.99.0.1"},
		"IPv6":                  {func(p *Plan) { p.Network = netip.MustParsePrefix("fd00:99::/64"); p.Count = 2 }, "wireguard-key-01 fd00:99::2, wireguard-key-02 fd00:99::3"},
		"IPv6 to its end": {func(p *Plan) {
			p.Network, p.Start = netip.MustParsePrefix("fd00::/126"), netip.MustParseAddr("fd00::3")
			p.Count = 1
		}, "wireguard-key-01 fd00::3"},
		"the last of all": {func(p *Plan) {
			p.Network, p.Count = netip.MustParsePrefix("fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"), 2
		}, "wireguard-key-01 fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffe, wireguard-key-02 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPlan()
			tt.change(&p)
			if got := addressesOf(generate(t, p)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	for name, tt := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"none":              {func(p *Plan) { p.Count = 0 }, "count 0"},
		"fewer":             {func(p *Plan) { p.Count = -1 }, "count -1"},
		"too many":          {func(p *Plan) { p.Count = 10001 }, "count 10001"},
		"number zero":       {func(p *Plan) { p.First = 0 }, "first 0"},
		"too small":         {func(p *Plan) { p.Network = prefix("10.99.0.0/30") }, "too small: it has no address for key number 2"},
		"too small later":   {func(p *Plan) { p.First = 252 }, "too small: it has no address for key number 254"},
		"one address":       {func(p *Plan) { p.Network = prefix("10.99.0.1/32") }, "too small"},
		"end of all":        {func(p *Plan) { p.Network = prefix("255.255.255.252/30") }, "too small"},
		"host bits":         {func(p *Plan) { p.Network = prefix("10.99.0.5/24") }, "has host bits set: write 10.99.0.0/24"},
		"no network":        {func(p *Plan) { p.Network = netip.Prefix{} }, "no network"},
		"loopback":          {func(p *Plan) { p.Network = prefix("127.0.0.0/8") }, "holds no addresses"},
		"IPv4 in IPv6":      {func(p *Plan) { p.Network = prefix("::ffff:10.0.0.0/112") }, "IPv6 form"},
		"server elsewhere":  {func(p *Plan) { p.ServerAddress = netip.MustParseAddr("10.98.0.1") }, "server address 10.98.0.1 is not in"},
		"start elsewhere":   {func(p *Plan) { p.Start = netip.MustParseAddr("fd00::1") }, "start fd00::1 is not in"},
		"no port":           {func(p *Plan) { p.Endpoint = "vpn.example.org" }, "want HOST:PORT"},
		"port zero":         {func(p *Plan) { p.Endpoint = "vpn.example.org:0" }, "is no port"},
		"port of words":     {func(p *Plan) { p.Endpoint = "vpn.example.org:wg" }, "is no port"},
		"no host":           {func(p *Plan) { p.Endpoint = ":51820" }, "no name of a host"},
		"IPv6 unbracketed":  {func(p *Plan) { p.Endpoint = "fd00::1:51820" }, "in brackets"},
		"injected line":     {func(p *Plan) { p.Endpoint = "a\nPostUp = reboot:1" }, "endpoint"},
		"short key":         {func(p *Plan) { p.ServerPublicKey = "AAAA" }, "it has 3 bytes"},
		"no base64":         {func(p *Plan) { p.ServerPublicKey = "hush!" }, "not base64"},
		"zero key":          {func(p *Plan) { p.ServerPublicKey = base64.StdEncoding.EncodeToString(make([]byte, 32)) }, "all zeros"},
		"key and more":      {func(p *Plan) { p.ServerPublicKey = serverKey + "\nPostUp=x" }, "not base64"},
		"ambiguous names":   {func(p *Plan) { p.NamePrefix = "key-1" }, "ends with a digit"},
		"capital names":     {func(p *Plan) { p.NamePrefix = "Key-" }, "makes no name of a Secret"},
		"long names":        {func(p *Plan) { p.NamePrefix = strings.Repeat("a", 253) }, "makes no name of a Secret"},
		"namespace":         {func(p *Plan) { p.Namespace = "a b" }, "no name of a namespace"},
		"allowed host bits": {func(p *Plan) { p.AllowedIPs = []netip.Prefix{prefix("192.168.1.7/24")} }, "write 192.168.1.0/24"},
		"DNS":               {func(p *Plan) { p.DNS = []string{"1.1.1.1", "a\nPostUp = x"} }, "no address and no domain"},
		"MTU":               {func(p *Plan) { p.MTU = 576 }, "MTU 576"},
		"keepalive":         {func(p *Plan) { p.Keepalive = 65536 }, "keepalive 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testPlan()
			tt.change(&p)
			peers, err := Generate(p)
			if err == nil || peers != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

var privateLine = regexp.MustCompile(`(?m)^PrivateKey = (.*)$`)

// Whatever the plan: addresses are distinct and inside, each configuration is
// one that the program can use, and the server knows the peer by the key that
// belongs to it.
func TestGenerateProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := testPlan()
		p.Count, p.First, p.Preshared = 1+random.IntN(20), 1+random.IntN(100), random.IntN(2) == 0
		p.Network = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(256)), byte(random.IntN(256)), 0}), 20+random.IntN(5)).Masked()
		if random.IntN(2) == 0 {
			p.Network = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 5: byte(random.IntN(256))}), 48+random.IntN(70)).Masked()
		}
		for range random.IntN(200) {
			if !p.ServerAddress.IsValid() {
				p.ServerAddress = p.Network.Addr()
			}
			p.ServerAddress = p.ServerAddress.Next()
		}
		peers := generate(t, p)
		seen := map[string]bool{}
		for _, peer := range peers {
			a := peer.Address
			if !p.Network.Contains(a) || a == p.Network.Addr() || a == peer.plan.ServerAddress || (a.Is4() && !p.Network.Contains(a.Next())) {
				t.Errorf("seed %d: address %s of %s", seed, a, p.Network)
			}
			config := []byte(peer.Config())
			if of, err := artifact.NodeAddress(config); err != nil || of != a {
				t.Errorf("seed %d: node address %s, %v, want %s", seed, of, err, a)
			}
			key, err := base64.StdEncoding.DecodeString(string(privateLine.FindSubmatch(config)[1]))
			if err != nil || len(key) != 32 || key[0]&7 != 0 || key[31]&0xc0 != 0x40 {
				t.Fatalf("seed %d: private key of %d bytes is not clamped, %v", seed, len(key), err)
			}
			private, err := ecdh.X25519().NewPrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			if public := base64.StdEncoding.EncodeToString(private.PublicKey().Bytes()); public != peer.PublicKey {
				t.Errorf("seed %d: public key does not belong to the private one", seed)
			}
			for _, unique := range []string{a.String(), peer.Name, peer.PublicKey} {
				if seen[unique] {
					t.Errorf("seed %d: %s twice", seed, unique)
				}
				seen[unique] = true
			}
		}
	}
}

// A later run goes on where the earlier one ended.
func TestRunsGoOn(t *testing.T) {
	t.Parallel()
	p := testPlan()
	p.Count = 10
	whole := addressesOf(generate(t, p))
	p.Count = 4
	first := addressesOf(generate(t, p))
	p.First, p.Count = 5, 6
	if got := first + ", " + addressesOf(generate(t, p)); got != whole {
		t.Errorf("%s\nwant %s", got, whole)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	p := testPlan()
	p.Count, p.Preshared, p.MTU, p.DNS = 2, true, 1380, []string{"10.99.0.1", "example.org"}
	p.AllowedIPs = []netip.Prefix{p.Network, netip.MustParsePrefix("192.168.1.0/24")}
	peers := generate(t, p)
	want := regexp.MustCompile(`^\[Interface\]
PrivateKey = \S{43}=
Address = 10.99.0.2/32
DNS = 10.99.0.1, example.org
MTU = 1380

\[Peer\]
PublicKey = ` + regexp.QuoteMeta(serverKey) + `
PresharedKey = \S{43}=
Endpoint = vpn.example.org:51820
AllowedIPs = 10.99.0.0/24, 192.168.1.0/24
PersistentKeepalive = 25
$`)
	if got := peers[0].Config(); !want.MatchString(got) {
		t.Errorf("configuration differs from %s", want)
	}
	documents, err := Secrets(peers)
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.Split(documents, []byte("---\n"))[1:]
	if len(parts) != 2 {
		t.Fatalf("%d documents", len(parts))
	}
	for i, part := range parts {
		var s corev1.Secret
		if err := yaml.UnmarshalStrict(part, &s); err != nil {
			t.Fatal(err)
		}
		holder, labelled := s.Labels[wireguardkey.InstanceLabel]
		if s.Kind != "Secret" || s.APIVersion != "v1" || s.Name != peers[i].Name || s.Namespace != "dynk8s" || !labelled || holder != "" ||
			s.Type != wireguardkey.SecretType || len(s.StringData) != 1 || s.StringData["wireguard-config"] != peers[i].Config() {
			t.Errorf("Secret %s differs", s.Name)
		}
	}
	sections := string(ServerSections(peers))
	preshared := regexp.MustCompile(`(?m)^PresharedKey = (.*)$`).FindStringSubmatch(peers[1].Config())[1]
	if section := fmt.Sprintf("\n# wireguard-key-02\n[Peer]\nPublicKey = %s\nPresharedKey = %s\nAllowedIPs = 10.99.0.3/32\n", peers[1].PublicKey, preshared); !strings.HasSuffix(sections, section) {
		t.Error("the server's section differs")
	}
}

func TestPeersPrintNothingSecret(t *testing.T) {
	t.Parallel()
	p := testPlan()
	p.Preshared = true
	peer := generate(t, p)[0]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		text := fmt.Sprintf(verb, peer)
		for _, hidden := range []string{peer.private.reveal(), peer.preshared.reveal()} {
			if strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
				t.Errorf("%s prints a secret", verb)
			}
		}
	}
}
