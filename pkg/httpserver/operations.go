package httpserver

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// OperationsConfig says where health and metrics are served and from what.
type OperationsConfig struct {
	// Address is the host and port to listen on, such as ":8081". It must not
	// be reachable from outside the cluster.
	Address string
	// Gatherer may be nil: there are no metrics then.
	Gatherer prometheus.Gatherer
	// Ready returns nil when the program can do its work, else the reason why
	// not, which is served to the caller. Nil means always ready.
	Ready func() error
	// Pprof also serves Go's profiles under /debug/pprof/, all but the command
	// line. They tell much of the program and cost it time.
	Pprof bool
	// Logger may be nil for slog.Default().
	Logger *slog.Logger
}

// NewOperationsServer opens the port and returns a server of /healthz, /readyz
// and /metrics, and of /debug/pprof/ if cfg says so. Answers have twenty seconds,
// profiles that take a time are given that time on top.
func NewOperationsServer(cfg OperationsConfig) (*Server, error) {
	log := orDefault(cfg.Logger)
	listener, err := listen(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("operations server: %w", err)
	}
	return newServer(serverConfig{
		listener: listener, handler: newOperationsHandler(cfg, log), shutdown: operationsShutdown, log: log,
	}), nil
}

func newOperationsHandler(cfg OperationsConfig, log *slog.Logger) http.Handler {
	if cfg.Gatherer == nil {
		cfg.Gatherer = prometheus.NewRegistry()
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { ready(w, cfg.Ready) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog: newErrorLog(log),
		// One broken collector must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
		Timeout:       handlerTimeout,
	}))
	if cfg.Pprof {
		addPprof(mux)
	}
	return mux
}

func ready(w http.ResponseWriter, check func() error) {
	if err := check(); err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write(w, code, []byte(text))
}
