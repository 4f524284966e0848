//go:build linux

package system

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
	"dynk8s.du5t1n.me/provisioner/test/ec2world"
)

const (
	// floodEvents is how many instances start and end in one run, so many a
	// second.
	floodEvents    = 200
	eventsASecond  = 20
	floodASecond   = 1000
	floodersAtOnce = 8
)

// BenchmarkEventsUnderFlood measures how long after its announcement an event is
// handled, with nobody at the artifact port, and with a flood of forged documents
// at it: from one address, which is soon refused without a look, and from a
// different one each time, so that as many documents are verified as the limit
// over all lets through. Compare the runs' p99.
//
//	go test ./system -run '^$' -bench Flood -benchtime 1x
func BenchmarkEventsUnderFlood(b *testing.B) {
	for _, name := range []string{"quiet", "one address", "many addresses"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			w.addKeys(floodEvents)
			d := w.startNamed("replica", w.configText(slowReconcile), map[string]string{"DYNK8S_ARTIFACTS_TRUSTEDPROXIES": "127.0.0.0/8"})
			ids := w.launch(floodEvents)
			ctx, stop := context.WithCancel(w.ctx)
			var flood sync.WaitGroup
			var answers [600]atomic.Int64
			if name != "quiet" {
				w.flood(ctx, d, ids[0], name == "many addresses", &flood, &answers)
			}
			b.ResetTimer()
			announced := map[instance.ID]time.Time{}
			tick := time.NewTicker(time.Second / eventsASecond)
			defer tick.Stop()
			for _, id := range ids {
				<-tick.C
				announced[id] = time.Now()
				w.announce(instance.Running, id)
			}
			w.eventually("all are handled", func() error { return w.provisioned(ids...) })
			w.eventually("settled", func() error { return w.queuesHold(0, 0) })
			b.StopTimer()
			stop()
			flood.Wait()
			ages := handledAfter(b, d, announced)
			b.ReportMetric(percentile(ages, 50), "p50-ms")
			b.ReportMetric(percentile(ages, 99), "p99-ms")
			for code := range answers {
				if n := answers[code].Load(); n > 0 {
					b.ReportMetric(float64(n)/b.Elapsed().Seconds(), fmt.Sprintf("%d/s", code))
				}
			}
			b.Logf("%s: %d events on %d cores", name, len(ages), runtime.NumCPU())
		})
	}
}

// flood sends forged documents until ctx ends.
func (w *world) flood(ctx context.Context, d *daemon.Daemon, id instance.ID, many bool, group *sync.WaitGroup, answers *[600]atomic.Int64) {
	w.t.Helper()
	forged, err := ec2world.New(w.stack).Document(w.ctx, id)
	must(w.t, err)
	var sent atomic.Uint32
	for range floodersAtOnce {
		group.Go(func() {
			tick := time.NewTicker(time.Second * floodersAtOnce / floodASecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				source := "203.0.113.7"
				if many {
					n := sent.Add(1)
					source = fmt.Sprintf("198.%d.%d.%d", 18+n>>16%2, n>>8%256, n%256)
				}
				if code := forgedRequest(ctx, d, id, forged, source); code > 0 {
					answers[code].Add(1)
				}
			}
		})
	}
}

// forgedRequest returns the status code; 0 when there is no answer.
func forgedRequest(ctx context.Context, d *daemon.Daemon, id instance.ID, forged, source string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.ArtifactsURL()+"/wireguard/config/"+string(id), nil)
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Instance-Identity "+forged)
	r.Header.Set("X-Forwarded-For", source)
	answer, err := d.Client().Do(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close() // ten bytes
	return answer.StatusCode
}

// handledAfter reads from the daemon's log how long after its announcement each
// instance's event was handled.
func handledAfter(b *testing.B, d *daemon.Daemon, announced map[instance.ID]time.Time) []time.Duration {
	b.Helper()
	log, err := d.Log()
	must(b, err)
	var ages []time.Duration
	for line := range bytes.Lines(log) {
		var entry struct {
			Time     time.Time
			Msg      string
			Instance instance.ID
		}
		if json.Unmarshal(line, &entry) != nil || entry.Msg != "event handled" {
			continue
		}
		if at, ours := announced[entry.Instance]; ours {
			ages = append(ages, entry.Time.Sub(at))
		}
	}
	if len(ages) < len(announced) {
		b.Fatalf("only %d of %d events were handled", len(ages), len(announced))
	}
	slices.Sort(ages)
	return ages
}

// percentile is in milliseconds.
func percentile(sorted []time.Duration, p int) float64 {
	return float64(sorted[(len(sorted)-1)*p/100]) / float64(time.Millisecond)
}
