package httpserver

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts requests. No label holds anything that a caller chose.
type metrics struct {
	requests, refusals *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	with := promauto.With(reg)
	return metrics{
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Name: "dynk8s_artifact_requests_total",
			Help: "Requests to the artifact endpoint by artifact and HTTP status code.",
		}, []string{"artifact", "code"}),
		refusals: with.NewCounterVec(prometheus.CounterOpts{
			Name: "dynk8s_artifact_refusals_total",
			Help: "Requests to the artifact endpoint that were refused (401, 403, 429), by reason.",
		}, []string{"reason"}),
	}
}

// count counts one request. reason counts only if the code is a refusal.
func (m metrics) count(artifact string, code int, reason string) {
	m.requests.WithLabelValues(artifact, strconv.Itoa(code)).Inc()
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		m.refusals.WithLabelValues(reason).Inc()
	}
}
