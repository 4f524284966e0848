package httpserver

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: "dynk8s_test_total", Help: "A test."}).Add(3)
	var notReady atomic.Pointer[error]
	s, err := NewOperationsServer(OperationsConfig{
		Address: "127.0.0.1:0", Gatherer: reg, Logger: quiet,
		Ready: func() error {
			if err := notReady.Load(); err != nil {
				return *err
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	check := func(line string, code int, part string) {
		t.Helper()
		if got := send(t, s, line); got.code != code || !strings.Contains(got.body, part) {
			t.Errorf("%s: %d %q", line, got.code, got.body)
		}
	}
	check("GET /healthz", 200, "ok\n")
	check("GET /readyz", 200, "ok\n")
	check("HEAD /readyz", 200, "")
	check("GET /metrics", 200, "dynk8s_test_total 3")
	check("POST /healthz", 405, "")
	check("GET /", 404, "")
	check("GET "+joinPath, 404, "")
	reason := errors.New("no message was received for 61s")
	notReady.Store(&reason)
	check("GET /readyz", 503, "no message was received for 61s")
	check("GET /healthz", 200, "ok\n")
}

func TestOperationsDefaults(t *testing.T) {
	t.Parallel()
	s, err := NewOperationsServer(OperationsConfig{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if got := send(t, s, "GET "+path); got.code != 200 {
			t.Errorf("%s: %d %q", path, got.code, got.body)
		}
	}
	if _, err := NewOperationsServer(OperationsConfig{Address: s.Addr().String()}); err == nil {
		t.Error("one port twice")
	}
}
