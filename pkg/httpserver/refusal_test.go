package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dynk8s.du5t1n.me/provisioner/pkg/lifecycle"
)

// rawAnswer returns an answer as it stands on the wire. In a bubble the Date is
// the same for all.
func rawAnswer(t *testing.T, l *pipeListener, line string) string {
	t.Helper()
	conn := l.mustDial(t, "192.0.2.1:1")
	if _, err := io.WriteString(conn, line+" HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// No 403 tells why, not even by an order of headers.
func TestForbiddenLooksTheSame(t *testing.T) {
	t.Parallel()
	closed := failing(fmt.Errorf("grant: %w", lifecycle.ErrClosed))
	tests := map[string]struct {
		artifacts Artifacts
		auth      Authorizer
	}{
		"stranger":             {fixedArtifacts{}, refusing},
		"with a word":          {fixedArtifacts{}, refusingWith(wordedError{"too_old"})},
		"with a bad word":      {fixedArtifacts{}, refusingWith(wordedError{string(testID)})},
		"refused, broken":      {failing(errors.New("away")), refusing},
		"refused as closed":    {fixedArtifacts{}, refusingWith(lifecycle.ErrClosed)},
		"refused as not there": {fixedArtifacts{}, refusingWith(lifecycle.ErrNotAllocated)},
		"closed":               {closed, AnyCaller()},
		"closed for a reason":  {failing(errors.Join(lifecycle.ErrClosed, wordedError{"joined"})), AnyCaller()},
		"closed, not there":    {failing(errors.Join(lifecycle.ErrNotAllocated, lifecycle.ErrClosed)), AnyCaller()},
	}
	synctest.Test(t, func(t *testing.T) {
		want := map[string]string{}
		for name, tt := range tests {
			l := servePipes(t, tt.artifacts, tt.auth, ArtifactConfig{})
			for _, path := range []string{wireGuardPath, kubeconfigPath, joinPath, "/kubeadm/join/i-11111111"} {
				for _, method := range []string{"GET", "HEAD"} {
					got := rawAnswer(t, l, method+" "+path)
					if want[method] == "" {
						want[method] = got
					}
					if got != want[method] || !strings.HasPrefix(got, "HTTP/1.1 403 Forbidden\r\n") {
						t.Errorf("%s: %s:\n%s\nwant\n%s", name, method, got, want[method])
					}
				}
			}
		}
		if head, _, _ := strings.Cut(want["GET"], "forbidden\n"); head != want["HEAD"] {
			t.Errorf("GET and HEAD differ in more than the body: %q, %q", want["GET"], want["HEAD"])
		}
	})
}

// GET and HEAD have the same headers, and no header says what serves.
func TestHeaders(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		artifacts Artifacts
		auth      Authorizer
		path      string
		code      int
	}{
		"served":        {fixedArtifacts{}, AnyCaller(), joinPath, 200},
		"no route":      {fixedArtifacts{}, AnyCaller(), "/", 404},
		"not allocated": {failing(lifecycle.ErrNotAllocated), AnyCaller(), joinPath, 404},
		"anonymous":     {fixedArtifacts{}, noCredentials, joinPath, 401},
		"refused":       {fixedArtifacts{}, refusing, joinPath, 403},
		"undecided":     {fixedArtifacts{}, undecided, joinPath, 503},
		"panic":         {fixedArtifacts{}, panicking, joinPath, 503},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			l := servePipesTLS(t, tt.artifacts, tt.auth, ArtifactConfig{})
			overTLS := overHTTP2(t, trusting(), func() (net.Conn, error) { return l.dial("192.0.2.1:1") })
			plain := servePipes(t, tt.artifacts, tt.auth, ArtifactConfig{}).client(t, "192.0.2.1:1")
			want := get(t, plain, tt.path)
			if want.code != tt.code || want.header.Get("Server") != "" || want.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %v", name, want.code, want.header)
			}
			if got := want.header.Get("WWW-Authenticate"); (got == "Instance-Identity") != (tt.code == 401) {
				t.Errorf("%s: WWW-Authenticate %q", name, got)
			}
			for _, client := range []*http.Client{plain, overTLS} {
				for method, body := range map[string]string{"GET": want.body, "HEAD": ""} {
					got := do(t, client, method, tt.path)
					if got.code != want.code || got.body != body || fmt.Sprint(got.header) != fmt.Sprint(want.header) {
						t.Errorf("%s: %s:\n%d %v\nwant\n%d %v", name, method, got.code, got.header, want.code, want.header)
					}
				}
			}
		})
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		artifacts Artifacts
		auth      Authorizer
		want      string // empty: not counted as a refusal
	}{
		"none":           {fixedArtifacts{}, refusing, "other"},
		"word":           {fixedArtifacts{}, refusingWith(fmt.Errorf("a: %w", wordedError{"too_old"})), "too_old"},
		"longest word":   {fixedArtifacts{}, refusingWith(wordedError{strings.Repeat("a", 32)}), strings.Repeat("a", 32)},
		"too long":       {fixedArtifacts{}, refusingWith(wordedError{strings.Repeat("a", 33)}), "other"},
		"empty":          {fixedArtifacts{}, refusingWith(wordedError{""}), "other"},
		"an id":          {fixedArtifacts{}, refusingWith(wordedError{string(testID)}), "other"},
		"two lines":      {fixedArtifacts{}, refusingWith(wordedError{"too_old\n"}), "other"},
		"anonymous":      {fixedArtifacts{}, noCredentials, "no_credentials"},
		"anonymous word": {fixedArtifacts{}, refusingWith(errors.Join(wordedError{"a_word"}, ErrNoCredentials)), "no_credentials"},
		"closed":         {failing(fmt.Errorf("a: %w", lifecycle.ErrClosed)), AnyCaller(), "closed"},
		"closed word":    {failing(errors.Join(lifecycle.ErrClosed, wordedError{"joined"})), AnyCaller(), "joined"},
		"refused closed": {fixedArtifacts{}, refusingWith(lifecycle.ErrClosed), "closed"},
		"undecided":      {fixedArtifacts{}, undecided, ""},
		"broken":         {failing(wordedError{"a_word"}), AnyCaller(), ""},
		"not allocated":  {failing(lifecycle.ErrNotAllocated), AnyCaller(), ""},
		"renderer's":     {failing(ErrNoCredentials), AnyCaller(), ""}, // only the Authorizer may say so
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged logBuffer
			reg := prometheus.NewRegistry()
			s := newTestServer(t, tt.artifacts, tt.auth, ArtifactConfig{Registerer: reg, Logger: logged.logger()})
			stop := run(t, s)
			send(t, s, "GET "+joinPath)
			stop()
			if n, err := testutil.GatherAndCount(reg, "dynk8s_artifact_refusals_total"); (n != 0) != (tt.want != "") || err != nil {
				t.Errorf("%d series, %v", n, err)
			}
			if tt.want == "" {
				return
			}
			want := fmt.Sprintf(`
# HELP dynk8s_artifact_refusals_total Requests to the artifact endpoint that were refused (401, 403, 429), by reason.
# TYPE dynk8s_artifact_refusals_total counter
dynk8s_artifact_refusals_total{reason=%q} 1
`, tt.want)
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "dynk8s_artifact_refusals_total"); err != nil {
				t.Error(err)
			}
			if !strings.Contains(logged.String(), "reason="+tt.want+" err=") {
				t.Errorf("logged:\n%s", &logged)
			}
		})
	}
}

// A flood of refused requests is no flood of warnings.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged logBuffer
		l := servePipes(t, fixedArtifacts{}, refusing, ArtifactConfig{Logger: logged.logger()})
		client := l.client(t, "192.0.2.1:1")
		for range 500 {
			get(t, client, joinPath)
		}
		time.Sleep(time.Second)
		get(t, client, joinPath)
		if n := strings.Count(logged.String(), "level=WARN"); n != reasonLines+1 {
			t.Errorf("%d warnings", n)
		}
		if !strings.Contains(logged.String(), fmt.Sprintf("suppressed=%d\n", 500-reasonLines)) {
			t.Error("the log does not say how many there were")
		}
		if strings.Contains(logged.String(), "level=INFO") {
			t.Error("a refused request is logged as served")
		}
	})
}

// A panic costs the request that met it, not the connection.
func TestPanicLeavesTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		panics := true
		auth := authorizerFunc(func(r *http.Request) error {
			if panics {
				return panicking(r)
			}
			return nil
		})
		l := servePipes(t, fixedArtifacts{}, auth, ArtifactConfig{})
		conn := l.mustDial(t, "192.0.2.1:1")
		for _, want := range []int{503, 503, 200} {
			panics = want == 503
			if _, err := io.WriteString(conn, plainRequest("GET "+joinPath)); err != nil {
				t.Fatal(err)
			}
			got := receive(t, conn, "GET "+joinPath)
			if got.code != want || strings.Contains(got.body, "goroutine") || strings.Contains(got.body, ".go") {
				t.Errorf("got %d %q, want %d", got.code, got.body, want)
			}
		}
	})
}
