package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/pkg/recovery"
)

// artifactHandler answers the artifact routes.
type artifactHandler struct {
	routes  []route
	auth    Authorizer
	trusted networks
	limiter *limiter
	timeout time.Duration
	metrics metrics
	log     *requestLog
}

// newArtifactHandler takes a cfg with a Logger.
func newArtifactHandler(a Artifacts, auth Authorizer, trusted networks, cfg ArtifactConfig) *artifactHandler {
	return &artifactHandler{
		routes:  newRoutes(a),
		auth:    auth,
		trusted: trusted,
		limiter: newLimiter(cfg.Limits),
		timeout: handlerTimeout,
		metrics: newMetrics(cfg.Registerer),
		log:     newRequestLog(cfg.Logger),
	}
}

// request is what is known of one request while it is answered.
type request struct {
	start  time.Time
	source netip.Addr
	route  route
	id     instance.ID // empty when the path names none
	let    bool        // in, by the Authorizer
	code   int
	reason string // why it was refused, else empty
}

// ServeHTTP answers one request, counts it once and logs it once.
func (h *artifactHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := request{start: time.Now(), source: h.trusted.source(r), route: noRoute}
	r = withSource(r, req.source)
	leaveBody(w, r)
	body, err := h.fetch(r, &req)
	if err != nil {
		body = h.refuse(w, r, &req, err)
	} else {
		req.code = http.StatusOK
		w.Header().Set("Content-Type", req.route.contentType)
	}
	write(w, req.code, body)
	h.metrics.count(req.route.artifact, req.code, req.reason)
	h.log.access(r, req)
}

// leaveBody makes sure that nothing of a request's body is read. net/http would
// read some of it after the answer, to find where the next request begins: the
// connection is closed instead, over HTTP/2 when the streams that are open have
// their answers.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	// Without it net/http still waits for a body of up to 256 KiB; over HTTP/2 it
	// makes it drop what comes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // every connection can
}

// fetch finds out what is asked for and renders it, filling req on the way. A
// panic is an error like others: the next request may fare better.
func (h *artifactHandler) fetch(r *http.Request, req *request) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, recovery.Error(p)
		}
	}()
	if err := h.limiter.take(req.source); err != nil {
		return nil, err
	}
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
	req.let = true
	return req.route.render(ctx, req.id)
}

// refuse sets the headers of an answer without an artifact and returns its body.
func (h *artifactHandler) refuse(w http.ResponseWriter, r *http.Request, req *request, err error) []byte {
	a := answerTo(err)
	req.code, req.reason = a.code, reasonOf(err)
	h.log.reason(r.Context(), *req, err)
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	if a.retryAfter != "" {
		header.Set("Retry-After", a.retryAfter)
	}
	switch a.code {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Instance-Identity")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", "GET, HEAD")
	}
	return []byte(a.body)
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
