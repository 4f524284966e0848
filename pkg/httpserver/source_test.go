package httpserver

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func trusting10(t testing.TB) networks {
	t.Helper()
	trusted, err := newNetworks(prefixes("10.0.0.0/8", "fd00::/8", "::ffff:192.168.0.0/112"))
	if err != nil {
		t.Fatal(err)
	}
	return trusted
}

func TestSource(t *testing.T) {
	t.Parallel()
	const proxy, stranger = "10.0.0.1:5", "192.0.2.1:5"
	tests := map[string]struct {
		peer  string
		lines []string
		want  string
	}{
		"no proxy":              {stranger, nil, "192.0.2.1"},
		"spoofed":               {stranger, []string{"198.51.100.1"}, "192.0.2.1"},
		"spoofed as a proxy":    {stranger, []string{"10.0.0.1", "10.0.0.2"}, "192.0.2.1"},
		"zone":                  {"[fe80::1%eth0]:5", nil, "fe80::1"},
		"mapped":                {"[::ffff:192.0.2.1]:5", nil, "192.0.2.1"},
		"no address":            {"@", nil, "invalid IP"},
		"proxy says nothing":    {proxy, nil, "10.0.0.1"},
		"proxy says empty":      {proxy, []string{""}, "10.0.0.1"},
		"one proxy":             {proxy, []string{"198.51.100.1"}, "198.51.100.1"},
		"mapped proxy":          {"[::ffff:10.0.0.1]:5", []string{"198.51.100.1"}, "198.51.100.1"},
		"mapped network":        {"192.168.3.4:5", []string{"198.51.100.1"}, "198.51.100.1"},
		"IPv6 proxy":            {"[fd00::1%eth0]:5", []string{"2001:db8::1"}, "2001:db8::1"},
		"spoofed through proxy": {proxy, []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"spoofed trusted":       {proxy, []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		"two proxies":           {proxy, []string{"203.0.113.9,198.51.100.1 ,\t10.0.0.2"}, "198.51.100.1"},
		"two lines":             {proxy, []string{"203.0.113.9, 198.51.100.1", "10.0.0.2, 10.0.0.3"}, "198.51.100.1"},
		"last line wins":        {proxy, []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		"all trusted":           {proxy, []string{"10.0.0.7, 10.0.0.2"}, "10.0.0.7"},
		"junk":                  {proxy, []string{"198.51.100.1, unknown"}, "10.0.0.1"},
		"junk before":           {proxy, []string{"198.51.100.1, _hidden, 10.0.0.2"}, "10.0.0.2"},
		"empty entry":           {proxy, []string{"198.51.100.1,,10.0.0.2"}, "10.0.0.2"},
		"comma at the end":      {proxy, []string{"198.51.100.1,"}, "10.0.0.1"},
		"port":                  {proxy, []string{"198.51.100.1:5678"}, "198.51.100.1"},
		"brackets":              {proxy, []string{"[2001:db8::1]"}, "2001:db8::1"},
		"brackets and port":     {proxy, []string{"[2001:db8::1]:80"}, "2001:db8::1"},
		"zone of an entry":      {proxy, []string{"[fe80::1%eth0]:80"}, "fe80::1"},
		"mapped entry":          {proxy, []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"mapped trusted entry":  {proxy, []string{"198.51.100.1, [::ffff:10.0.0.2]:80"}, "198.51.100.1"},
		"brackets round IPv4":   {proxy, []string{"[198.51.100.1]"}, "10.0.0.1"},
		"bad port":              {proxy, []string{"198.51.100.1:99999"}, "10.0.0.1"},
		"network":               {proxy, []string{"198.51.100.0/24"}, "10.0.0.1"},
		"quotes":                {proxy, []string{`"198.51.100.1"`}, "10.0.0.1"},
		"leading zero":          {proxy, []string{"198.51.100.01"}, "10.0.0.1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", joinPath, nil)
			r.RemoteAddr = tt.peer
			for _, line := range tt.lines {
				r.Header.Add("x-forwarded-for", line)
			}
			if got := trusting10(t).source(r).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Without trusted proxies no header has an effect, and what the Authorizer is
// told is what is logged.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		trusted []netip.Prefix
		want    string
	}{{nil, "127.0.0.1"}, {prefixes("127.0.0.0/8"), "198.51.100.1"}} {
		var logged logBuffer
		told := make(chan string, 1)
		auth := authorizerFunc(func(r *http.Request) error { told <- SourceOf(r).String(); return nil })
		s := newTestServer(t, fixedArtifacts{}, auth, ArtifactConfig{TrustedProxies: tt.trusted, Logger: logged.logger()})
		stop := run(t, s)
		send(t, s, "GET "+joinPath, "X-Forwarded-For: 203.0.113.1, 198.51.100.1")
		stop()
		if got := <-told; got != tt.want {
			t.Errorf("the authorizer is told %s, want %s", got, tt.want)
		}
		if !strings.Contains(logged.String(), " source="+tt.want+" remote=127.0.0.1:") {
			t.Errorf("logged:\n%s", &logged)
		}
	}
	r := httptest.NewRequest("GET", joinPath, nil)
	r.RemoteAddr = "[::ffff:192.0.2.1]:5"
	if got := SourceOf(r); got != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("of a request from elsewhere: %v", got)
	}
}

// A slice that the caller changes later changes nothing.
func TestNetworksAreCopied(t *testing.T) {
	t.Parallel()
	given := prefixes("10.0.0.0/8")
	trusted, err := newNetworks(given)
	if err != nil {
		t.Fatal(err)
	}
	given[0] = netip.MustParsePrefix("0.0.0.0/0")
	if trusted.contain(netip.MustParseAddr("192.0.2.1")) {
		t.Error("everybody is trusted")
	}
}

// Whatever a client writes, what a trusted proxy adds after it is believed; and
// a result is always an address in its own form.
func FuzzForwardedFor(f *testing.F) {
	for _, line := range []string{"", "198.51.100.1", "[::1]:80, 10.0.0.1", ",,,", "fe80::1%eth0", "::ffff:10.0.0.1", "unknown", "[", "]:", "%"} {
		f.Add(line, line)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		trusted, peer, real := trusting10(t), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.77")
		for _, lines := range [][]string{
			{first, second, real.String()},
			{first, second + "," + real.String()},
			{first, second + ", " + real.String() + ":80 , 10.0.0.3"},
			{first, real.String(), "[fd00::5]", "10.1.1.1:1"},
		} {
			if got := trusted.forwardedFor(lines, peer); got != real {
				t.Errorf("%q: %v", lines, got)
			}
		}
		got := trusted.forwardedFor([]string{first, second}, peer)
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q, %q: %v", first, second, got)
		}
	})
}
