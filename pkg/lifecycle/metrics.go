package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Kinds of correction that the reconcile pass makes.
const (
	corrAdmitted      = "admitted"
	corrRetired       = "retired"
	corrClosed        = "closed"
	corrRenewed       = "token_renewed"
	corrExpired       = "token_revoked"
	corrLabelRestored = "label_restored"
	corrSurplusKey    = "surplus_key_released"
	corrSurplusToken  = "surplus_token_revoked"
)

type metrics struct {
	corrections *prometheus.CounterVec
	join        prometheus.Histogram
	neverJoined prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	with := promauto.With(reg)
	m := metrics{
		corrections: with.NewCounterVec(prometheus.CounterOpts{
			Name: "dynk8s_reconcile_corrections_total",
			Help: "What the reconcile pass had to put right, by kind.",
		}, []string{"kind"}),
		join: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "dynk8s_join_seconds",
			Help:    "Time from an instance's bootstrap token to its Ready node.",
			Buckets: prometheus.ExponentialBucketsRange(10, 3600, 12),
		}),
		neverJoined: with.NewCounter(prometheus.CounterOpts{
			Name: "dynk8s_never_joined_total",
			Help: "Instances whose token ended before their node was Ready.",
		}),
	}
	for _, kind := range []string{corrAdmitted, corrRetired, corrClosed, corrRenewed, corrExpired, corrLabelRestored, corrSurplusKey, corrSurplusToken} {
		m.corrections.WithLabelValues(kind)
	}
	return m
}
