package nodecertificate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// A token with which somebody asks a thousand times does not let another's
// request wait, and costs little.
func TestOneRequestorDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.start(t)
		begun := time.Now()
		for i := range 1000 {
			r := clientRecipe()
			r.username = bootstrapapi.BootstrapUserPrefix + "flood0"
			w.add(t, fmt.Sprintf("flood-%d", i), r)
		}
		w.add(t, "csr-1", clientRecipe())
		synctest.Wait()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("decided after %s", took)
		}
		wantApproved(t, w.server.read("csr-1"))
		decided := 0
		for i := range 1000 {
			if !pending(w.server.read(fmt.Sprintf("flood-%d", i))) {
				decided++
			}
		}
		if decided != requestorBurst {
			t.Errorf("%d of the flood were decided at once, want %d", decided, requestorBurst)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		later := 0
		for i := range 1000 {
			if !pending(w.server.read(fmt.Sprintf("flood-%d", i))) {
				later++
			}
		}
		if later-decided > requestorRate+1 || later == decided {
			t.Errorf("%d more within a second, want %d", later-decided, requestorRate)
		}
	})
}
