package poller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
)

type metrics struct {
	messages    *prometheus.CounterVec
	age         prometheus.Histogram
	handle      *prometheus.HistogramVec
	lastReceive prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) metrics {
	f := promauto.With(reg)
	return metrics{
		messages: f.NewCounterVec(prometheus.CounterOpts{
			Name: "dynk8s_messages_total",
			Help: "Messages by what became of them.",
		}, []string{"outcome"}),
		age: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "dynk8s_message_age_seconds",
			Help:    "Time from an event (else from sending its message) to the deletion of the message.",
			Buckets: []float64{.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}),
		handle: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dynk8s_handle_seconds",
			Help:    "Time to handle an event, by the instance's state.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"action"}),
		lastReceive: f.NewGauge(prometheus.GaugeOpts{
			Name: "dynk8s_last_receive_timestamp_seconds",
			Help: "When the queue last answered a receive, also with no message.",
		}),
	}
}

func (m metrics) count(outcome string, n int) {
	if n > 0 {
		m.messages.WithLabelValues(outcome).Add(float64(n))
	}
}

func (m metrics) handled(state instance.State, took time.Duration) {
	m.handle.WithLabelValues(string(state)).Observe(took.Seconds())
}

func (m metrics) received() { m.lastReceive.Set(float64(time.Now().UnixNano()) / 1e9) }

// settled records the age of a deleted message, unless nobody said when it
// began. Clocks differ, so an event may seem to lie ahead: that is age 0.
func (m metrics) settled(e *entry) {
	since := e.event.Time
	if since.IsZero() {
		since = e.message.Sent
	}
	if !since.IsZero() {
		m.age.Observe(max(0, time.Since(since)).Seconds())
	}
}
