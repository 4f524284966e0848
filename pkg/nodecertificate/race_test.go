package nodecertificate

import (
	"errors"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// once makes a hook that does something before the first call with the verb.
func once(verb string, f func()) func(string) error {
	var done sync.Once
	return func(v string) error {
		if v == verb {
			done.Do(f)
		}
		return nil
	}
}

func TestConflictIsEvaluatedAgain(t *testing.T) {
	t.Parallel()
	decidedAs := func(c certificatesv1.RequestConditionType) func(*world) {
		return func(w *world) {
			request := w.server.read("csr-1")
			request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c, Status: "True", Reason: "ByHand"}}
			w.server.put(request)
		}
	}
	replacedBy := func(change func(*recipe)) func(*world) {
		return func(w *world) {
			r := clientRecipe()
			change(r)
			w.server.put(r.make(t, "csr-1"))
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(*world)
		want      certificatesv1.RequestConditionType
		reason    string
	}{
		"denied by hand":           {decidedAs(certificatesv1.CertificateDenied), certificatesv1.CertificateDenied, "ByHand"},
		"approved by another":      {decidedAs(certificatesv1.CertificateApproved), certificatesv1.CertificateApproved, "ByHand"},
		"labelled":                 {replacedBy(func(*recipe) {}), certificatesv1.CertificateApproved, ReasonApproved},
		"replaced by another's":    {replacedBy(commonName("system:node:node-b")), certificatesv1.CertificateDenied, ReasonRefused},
		"replaced by one not ours": {replacedBy(username("admin")), "", ""},
		"the token's instance is no": {func(w *world) {
			delete(w.ledger.tokens, tokenA)
			w.server.put(clientRecipe().make(t, "csr-1"))
		}, certificatesv1.CertificateDenied, ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.server.put(clientRecipe().make(t, "csr-1"))
			w.server.hook = once("update", func() { c.meanwhile(w) })
			if err := w.attempt(t.Context(), "csr-1"); !errors.Is(err, errConflict) {
				t.Fatalf("first attempt: %v", err)
			}
			if err := w.attempt(t.Context(), "csr-1"); err != nil {
				t.Fatalf("second attempt: %v", err)
			}
			request := w.server.read("csr-1")
			if c.reason == "ByHand" {
				if got := request.Status.Conditions; len(got) != 1 || got[0].Type != c.want || got[0].Reason != c.reason {
					t.Errorf("conditions %+v", got)
				}
				return
			}
			wantCondition(t, request, c.want, c.reason)
		})
	}
}

func TestManyApproversAtOnce(t *testing.T) {
	t.Parallel()
	for range 50 {
		w := newWorld()
		w.server.put(clientRecipe().make(t, "csr-1"))
		others := []*Approver{w.Approver}
		for range 3 {
			others = append(others, New(w.server, w.ledger, Config{Logger: w.Approver.log}))
		}
		var group sync.WaitGroup
		for _, a := range others {
			group.Go(func() {
				if err := a.attempt(t.Context(), "csr-1"); err != nil && !errors.Is(err, errConflict) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wantApproved(t, w.server.read("csr-1"))
		sum := 0.0
		for _, a := range others {
			sum += testutil.ToFloat64(a.decided.WithLabelValues("client", "approved"))
		}
		if sum != 1 {
			t.Fatalf("approved %v times", sum)
		}
	}
}
