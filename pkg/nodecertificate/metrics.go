package nodecertificate

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// result is what came of a request, as metrics and logs name it.
type result string

const (
	approved result = "approved"
	denied   result = "denied"
	failed   result = "failed" // an attempt, which is made again
)

func newCounter(reg prometheus.Registerer) *prometheus.CounterVec {
	counter := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "dynk8s_certificate_requests_total",
		Help: "Certificate signing requests of nodes by what became of them: approved, denied, failed (an attempt that is made again).",
	}, []string{"signer", "result"})
	for _, s := range []signer{clientSigner, servingSigner} {
		for _, r := range []result{approved, denied, failed} {
			counter.WithLabelValues(string(s), string(r))
		}
	}
	return counter
}

func (a *Approver) count(s signer, r result) {
	a.decided.WithLabelValues(string(s), string(r)).Inc()
}
