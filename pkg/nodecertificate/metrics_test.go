package nodecertificate

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if n, err := testutil.GatherAndCount(w.registry, "dynk8s_certificate_requests_total"); err != nil || n != 6 {
		t.Errorf("%d series, %v", n, err)
	}
	problems, err := testutil.GatherAndLint(w.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
