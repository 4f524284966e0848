package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

const (
	wireGuardPath  = "/wireguard/config/" + string(testID)
	kubeconfigPath = "/kubeadm/kubeconfig/" + string(testID)
	joinPath       = "/kubeadm/join/" + string(testID)
)

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := serve(t, fixedArtifacts{}, AnyCaller())
	tests := map[string]struct{ contentType, body string }{
		wireGuardPath:     {"text/plain; charset=utf-8", "PrivateKey = " + secret + "\n"},
		kubeconfigPath:    {"application/yaml", "kind: Config\n"},
		joinPath:          {"application/yaml", "tlsBootstrapToken: 5emitj." + secret + "\n"},
		joinPath + "?a=b": {"application/yaml", "tlsBootstrapToken: 5emitj." + secret + "\n"},
	}
	for path, want := range tests {
		for _, method := range []string{"GET", "HEAD"} {
			got := send(t, s, method+" "+path)
			wantBody := want.body
			if method == "HEAD" {
				wantBody = ""
			}
			if got.code != 200 || got.body != wantBody {
				t.Errorf("%s %s: %d %q", method, path, got.code, got.body)
			}
			checkHeader(t, got, map[string]string{
				"Content-Type":           want.contentType,
				"Content-Length":         strconv.Itoa(len(want.body)),
				"Cache-Control":          "no-store",
				"X-Content-Type-Options": "nosniff",
				"Retry-After":            "",
			})
		}
	}
}

func checkHeader(t *testing.T, r response, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := r.header.Get(key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
}

// unknownPaths are no routes, though some nearly are.
var unknownPaths = []string{
	"/", "//", "/wireguard/config", "/wireguard/config/", "/wireguard/config//" + string(testID),
	"//wireguard/config/" + string(testID), "/wireguard/./config/" + string(testID),
	wireGuardPath + "/", wireGuardPath + "0", wireGuardPath + "%00", wireGuardPath + "%0a",
	wireGuardPath + "%2f..%2f" + string(testID), "/wireguard%2fconfig/" + string(testID), "/kubeadm/join/i%2D0123456789abcdef0",
	"/kubeadm/join/../../wireguard/config/" + string(testID),
	"/wireguard/config/i-0123456789ABCDEF0", "/wireguard/config/i-0123", "/wireguard/config/%20" + string(testID),
	"/wireguard/config/i-0123456789abcdef0,a=b", "/wireguard/config/i-0123456789abcdef0%20or%201=1",
	"/Wireguard/config/" + string(testID), "/healthz", "/metrics", "/readyz", "/debug/pprof/",
	"/" + strings.Repeat("a", 12000), "/wireguard/config/" + strings.Repeat("i", 12000),
	"/wireguard/config/" + strings.Repeat("../", 3000),
}

// Whatever the path, who does not know a valid one learns nothing from answers.
func TestUnknownPathsLookTheSame(t *testing.T) {
	t.Parallel()
	s := serve(t, fixedArtifacts{}, AnyCaller())
	for _, path := range unknownPaths {
		got := send(t, s, "GET "+path)
		if got.code != 404 || got.body != "not found\n" {
			t.Errorf("%.60s: %d %.100q", path, got.code, got.body)
		}
		checkHeader(t, got, map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store",
			"X-Content-Type-Options": "nosniff", "Retry-After": "", "Location": "",
		})
	}
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, fixedArtifacts{}, AnyCaller())
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"} {
		got := send(t, s, method+" "+wireGuardPath, "Content-Length: 0")
		if got.code != 405 || strings.Contains(got.body, secret) {
			t.Errorf("%s: %d %q", method, got.code, got.body)
		}
		checkHeader(t, got, map[string]string{"Allow": "GET, HEAD", "Cache-Control": "no-store"})
	}
	for _, line := range []string{"OPTIONS *", "POST /", "CONNECT example.org:443"} {
		if got := send(t, s, line); got.code != 404 {
			t.Errorf("%s: %d", line, got.code)
		}
	}
}

func TestErrorsBecomeStatus(t *testing.T) {
	t.Parallel()
	broken := errors.New("the API server is away, " + secret)
	bursting := oneAnswer(func(context.Context) ([]byte, error) { panic("holding " + secret) })
	crashing := oneAnswer(func(context.Context) ([]byte, error) { return []byte{[]byte(nil)[0]}, nil })
	tests := map[string]struct {
		artifacts  Artifacts
		auth       Authorizer
		code       int
		body       string
		retryAfter string
	}{
		"not allocated": {failing(fmt.Errorf("a: %w", lifecycle.ErrNotAllocated)), AnyCaller(), 404, "not found\n", "5"},
		"broken":        {failing(broken), AnyCaller(), 503, "try again later\n", "10"},
		"panic":         {bursting, AnyCaller(), 503, "try again later\n", "10"},
		"crash":         {crashing, AnyCaller(), 503, "try again later\n", "10"},
		"closed":        {failing(fmt.Errorf("a: %w", lifecycle.ErrClosed)), AnyCaller(), 403, "forbidden\n", ""},
		"auth panic":    {fixedArtifacts{}, panicking, 503, "try again later\n", "10"},
		"undecided":     {fixedArtifacts{}, undecided, 503, "try again later\n", "10"},
		"anonymous":     {fixedArtifacts{}, noCredentials, 401, "unauthorized\n", ""},
		"refused":       {fixedArtifacts{}, refusing, 403, "forbidden\n", ""},
		"refused first": {failing(broken), refusing, 403, "forbidden\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.artifacts, tt.auth)
			for range 2 { // a panic must not harm the next request
				got := send(t, s, "GET "+joinPath)
				if got.code != tt.code || got.body != tt.body {
					t.Errorf("got %d %q", got.code, got.body)
				}
				checkHeader(t, got, map[string]string{
					"Retry-After": tt.retryAfter, "Cache-Control": "no-store",
					"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
				})
			}
		})
	}
}

func TestRequestsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	reg := prometheus.NewRegistry()
	withHeader := authorizerFunc(func(r *http.Request) error {
		if r.Header.Get("Authorization") == "" {
			return ErrNoCredentials
		}
		return nil
	})
	s := newTestServer(t, fixedArtifacts{}, withHeader, ArtifactConfig{Registerer: reg, Logger: logged.logger()})
	stop := run(t, s)
	const valid = "Authorization: anything"
	send(t, s, "GET "+wireGuardPath, valid)
	send(t, s, "HEAD "+wireGuardPath, valid)
	send(t, s, "GET /kubeadm/join/i-11111111111111111", valid)
	send(t, s, "GET "+joinPath)
	send(t, s, "GET /kubeadm/kubeconfig/nonsense", valid)
	send(t, s, "POST "+kubeconfigPath, valid)
	send(t, s, "GET /favicon.ico")
	stop()
	want := `
# HELP dynk8s_artifact_refusals_total Requests to the artifact endpoint that were refused (401, 403, 429), by reason.
# TYPE dynk8s_artifact_refusals_total counter
dynk8s_artifact_refusals_total{reason="no_credentials"} 1
# HELP dynk8s_artifact_requests_total Requests to the artifact endpoint by artifact and HTTP status code.
# TYPE dynk8s_artifact_requests_total counter
dynk8s_artifact_requests_total{artifact="join_configuration",code="401"} 1
dynk8s_artifact_requests_total{artifact="join_configuration",code="404"} 1
dynk8s_artifact_requests_total{artifact="kubeconfig",code="404"} 1
dynk8s_artifact_requests_total{artifact="kubeconfig",code="405"} 1
dynk8s_artifact_requests_total{artifact="none",code="404"} 1
dynk8s_artifact_requests_total{artifact="wireguard_config",code="200"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	for level, want := range map[string]int{"INFO": 3, "DEBUG": 4} { // whoever was let in, and others
		if n := strings.Count(logged.String(), "level="+level+` msg="artifact request"`); n != want {
			t.Errorf("%d access log lines of level %s, want %d:\n%s", n, level, want, &logged)
		}
	}
	line := `msg="artifact request" artifact=wireguard_config instance=` + string(testID) + " code=200 method=GET source=127.0.0.1 remote=127.0.0.1:"
	if !strings.Contains(logged.String(), line) {
		t.Errorf("logged:\n%s", &logged)
	}
}

// Every kind of failure, and nothing secret in the log; the reasons are there.
func TestLogHoldsReasonsButNoSecrets(t *testing.T) {
	t.Parallel()
	var logged logBuffer
	bursting := oneAnswer(func(context.Context) ([]byte, error) { panic(errors.New("holding " + secret)) })
	crashing := oneAnswer(func(context.Context) ([]byte, error) { return []byte{[]byte(nil)[0]}, nil })
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, a := range []Artifacts{fixedArtifacts{}, failing(errors.New("API server away")), bursting, crashing} {
		for _, auth := range []Authorizer{AnyCaller(), refusing, noCredentials, undecided, panicking} {
			s := newTestServer(t, a, auth, ArtifactConfig{Logger: logged.logger(), TrustedProxies: trusted})
			stop := run(t, s)
			for _, path := range []string{wireGuardPath, kubeconfigPath, joinPath, "/kubeadm/join/x", "/" + secret} {
				send(t, s, "GET "+path, "Authorization: Bearer "+secret, "X-Forwarded-For: "+secret)
				send(t, s, "DELETE "+path+"?token="+secret, "Authorization: Bearer "+secret)
			}
			stop()
		}
	}
	for _, reason := range []string{
		"API server away", "signed by a stranger", "no document", "EC2 is away", "panic with a value of type string",
		"panic with a value of type *errors.errorString", "index out of range", "artifactserver_test.go",
	} {
		if !strings.Contains(logged.String(), reason) {
			t.Errorf("the log does not say %q", reason)
		}
	}
	if i := strings.Index(logged.String(), secret); i >= 0 {
		t.Errorf("the log holds the secret: %.300s", logged.String()[max(0, i-200):])
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, fixedArtifacts{}, AnyCaller())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for _, path := range []string{wireGuardPath, kubeconfigPath, joinPath, "/", "/kubeadm/join/i-11111111"} {
				for range 4 {
					got := send(t, s, "GET "+path)
					if want := strings.HasSuffix(path, string(testID)); (got.code == 200) != want {
						t.Errorf("%s: %d", path, got.code)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestNewArtifactServerRefuses(t *testing.T) {
	t.Parallel()
	taken := serve(t, fixedArtifacts{}, AnyCaller()).Addr().String()
	tests := map[string]struct {
		auth Authorizer
		cfg  ArtifactConfig
		want string
	}{
		"no authorizer":   {nil, ArtifactConfig{Address: "127.0.0.1:0"}, "no authorizer"},
		"no address":      {AnyCaller(), ArtifactConfig{}, "no address"},
		"bad address":     {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:notaport"}, "open port"},
		"port in use":     {AnyCaller(), ArtifactConfig{Address: taken}, "in use"},
		"only a cert":     {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:0", CertFile: "a"}, "both or not at all"},
		"only a key":      {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:0", KeyFile: "a"}, "both or not at all"},
		"no such file":    {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:0", CertFile: "/nonexistent/a", KeyFile: "/nonexistent/b"}, "no such file"},
		"bad network":     {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:0", TrustedProxies: make([]netip.Prefix, 1)}, "trusted proxies: entry 0"},
		"no certificates": {AnyCaller(), ArtifactConfig{Address: "127.0.0.1:0", CertFile: "doc.go", KeyFile: "doc.go"}, "certificate"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewArtifactServer(fixedArtifacts{}, tt.auth, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
