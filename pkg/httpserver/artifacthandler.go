package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

// artifactHandler answers the artifact routes.
type artifactHandler struct {
	routes   []route
	auth     Authorizer
	timeout  time.Duration
	log      *slog.Logger
	requests *prometheus.CounterVec
}

func newArtifactHandler(a Artifacts, auth Authorizer, reg prometheus.Registerer, log *slog.Logger) *artifactHandler {
	return &artifactHandler{
		routes:  newRoutes(a),
		auth:    auth,
		timeout: handlerTimeout,
		log:     log,
		requests: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "dynk8s_artifact_requests_total",
			Help: "Requests to the artifact endpoint by artifact and HTTP status code.",
		}, []string{"artifact", "code"}),
	}
}

// request is what is known of one request while it is answered.
type request struct {
	route route
	id    instance.ID // empty when the path names none
	code  int
}

// ServeHTTP answers one request, counts it once and logs it once.
func (h *artifactHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	var req request
	body, err := h.fetch(r, &req)
	if err != nil {
		a := answerTo(err)
		h.logReason(r.Context(), req, a, err)
		body = h.refuse(w, &req, a)
	} else {
		req.code = http.StatusOK
		w.Header().Set("Content-Type", req.route.contentType)
	}
	write(w, req.code, body)
	h.requests.WithLabelValues(req.route.artifact, strconv.Itoa(req.code)).Inc()
	h.log.Info("artifact request", "artifact", req.route.artifact, "instance", req.id, "code", req.code,
		"method", r.Method, "remote", r.RemoteAddr, "duration", time.Since(start))
}

// fetch finds out what is asked for and renders it, filling req on the way. A
// panic is an error like others: the next request may fare better.
func (h *artifactHandler) fetch(r *http.Request, req *request) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, recovery.Error(p)
		}
	}()
	rt, rest, found := find(h.routes, r.URL.Path)
	req.route = rt
	// No route needs an encoded character, and a guard in front may not see
	// through it.
	if !found || r.URL.EscapedPath() != r.URL.Path {
		return nil, errNoRoute
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, errMethod
	}
	id, err := instance.ParseID(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRoute, err)
	}
	req.id = id
	return h.render(r, req)
}

func (h *artifactHandler) render(r *http.Request, req *request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	if err := h.auth.Authorize(r.WithContext(ctx), req.id); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return req.route.render(ctx, req.id)
}

// refuse sets the headers of a refusal and returns its body.
func (h *artifactHandler) refuse(w http.ResponseWriter, req *request, a answer) []byte {
	req.code = a.code
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if a.retryAfter != "" {
		header.Set("Retry-After", a.retryAfter)
	}
	if a.code == http.StatusMethodNotAllowed {
		header.Set("Allow", "GET, HEAD")
	}
	return []byte(a.body)
}

// logReason keeps what the caller is not told. Only what an operator should
// look at is worth a warning.
func (h *artifactHandler) logReason(ctx context.Context, req request, a answer, err error) {
	level := slog.LevelDebug
	if a.code == http.StatusForbidden || a.code == http.StatusServiceUnavailable {
		level = slog.LevelWarn
	}
	h.log.Log(ctx, level, "artifact not served",
		"artifact", req.route.artifact, "instance", req.id, "code", a.code, "err", err)
}

// write sends an answer. net/http drops the body of an answer to HEAD.
func write(w http.ResponseWriter, code int, body []byte) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client is gone: it will ask again
}
