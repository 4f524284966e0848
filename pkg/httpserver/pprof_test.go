package httpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPprof(t *testing.T) {
	t.Parallel()
	s, err := NewOperationsServer(OperationsConfig{Address: "127.0.0.1:0", Logger: quiet, Pprof: true})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	for path, part := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile:",
		"/debug/pprof/symbol":            "num_symbols",
	} {
		if got := send(t, s, "GET "+path); got.code != 200 || !strings.Contains(got.body, part) {
			t.Errorf("%s: %d %.200q", path, got.code, got.body)
		}
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/nonsense", "/debug/pprof", "/debug/vars"} {
		if got := send(t, s, "GET "+path); got.code == 200 || strings.Contains(got.body, "test.") {
			t.Errorf("%s: %d %q", path, got.code, got.body)
		}
	}
}

// A trace is given the time it takes on top of what all answers get.
func TestPprofTakesItsTime(t *testing.T) {
	t.Parallel()
	const seconds = 0.5
	s, err := NewOperationsServer(OperationsConfig{Address: "127.0.0.1:0", Logger: quiet, Pprof: true})
	if err != nil {
		t.Fatal(err)
	}
	s.http.WriteTimeout = time.Second * 2 / 5
	run(t, s)
	start := time.Now()
	if got := send(t, s, fmt.Sprintf("GET /debug/pprof/trace?seconds=%g", seconds)); got.code != 200 || len(got.body) == 0 || time.Since(start) < s.http.WriteTimeout {
		t.Errorf("a trace: %d, %d bytes after %v", got.code, len(got.body), time.Since(start))
	}
}

// Importing net/http/pprof adds it to http.DefaultServeMux: nobody serves that.
func TestNoPprof(t *testing.T) {
	t.Parallel()
	operations, err := NewOperationsServer(OperationsConfig{Address: "127.0.0.1:0", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	run(t, operations)
	for _, s := range []*Server{operations, serve(t, fixedArtifacts{}, AnyCaller())} {
		for _, path := range []string{"", "profile", "trace", "symbol", "cmdline", "heap", "goroutine?debug=2"} {
			if got := send(t, s, "GET /debug/pprof/"+path); got.code != 404 {
				t.Errorf("%q: %d %.100q", path, got.code, got.body)
			}
		}
	}
}
