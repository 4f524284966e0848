package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// Log lines a second. Whoever reaches the port can cause them.
const (
	reasonLines = 10
	floodLines  = 1
)

// requestLog is where requests are logged.
type requestLog struct {
	log     *slog.Logger
	reasons *brake // for why something was not served
	floods  *brake // for requests above the Limits
}

func newRequestLog(log *slog.Logger) *requestLog {
	return &requestLog{log: log, reasons: newBrake(reasonLines), floods: newBrake(floodLines)}
}

// access logs one request that was answered: at level info for callers that were
// let in, at level debug for others, who may be anybody.
func (l *requestLog) access(r *http.Request, req request) {
	level := slog.LevelDebug
	if req.let && req.code != http.StatusForbidden {
		level = slog.LevelInfo
	}
	l.log.Log(r.Context(), level, "artifact request", "artifact", req.route.artifact, "instance", req.id, "code", req.code,
		"method", r.Method, "source", req.source, "remote", r.RemoteAddr, "duration", time.Since(req.start))
}

// reason keeps what the caller is not told. Only what an operator should look
// at is worth a warning.
func (l *requestLog) reason(ctx context.Context, req request, err error) {
	switch req.code {
	case http.StatusTooManyRequests:
		l.flood(ctx, req)
	case http.StatusForbidden, http.StatusServiceUnavailable:
		if held, ok := l.reasons.pass(); ok {
			l.log.WarnContext(ctx, "artifact not served", "artifact", req.route.artifact, "instance", req.id, "code", req.code,
				"source", req.source, "reason", req.reason, "err", err, "suppressed", held)
		}
	default:
		l.log.DebugContext(ctx, "artifact not served", "artifact", req.route.artifact, "instance", req.id, "code", req.code,
			"source", req.source, "reason", req.reason, "err", err)
	}
}

// flood tells of requests above the Limits: how many since the line before, and
// of the last one more.
func (l *requestLog) flood(ctx context.Context, req request) {
	if held, ok := l.floods.pass(); ok {
		l.log.WarnContext(ctx, "requests refused, too many", "count", held+1, "reason", req.reason, "source", req.source)
	}
}
