package httpserver

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A thousand requests a second from one address, with X-Forwarded-For made up:
// the bucket lets some through, and others do not notice.
func TestFloodFromOneSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds, rate = 3, 1000
		var logged logBuffer
		reg := prometheus.NewRegistry()
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{
			Registerer: reg, Logger: logged.logger(), Limits: defaultLimits,
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			other := l.client(t, "198.51.100.7:1")
			for range seconds * 5 {
				if got := get(t, other, joinPath); got.code != 200 {
					t.Errorf("another address gets %d", got.code)
				}
				time.Sleep(time.Second / 5)
			}
		})
		served, refused, flooder := 0, 0, l.client(t, "192.0.2.1:1")
		for i := range seconds * rate {
			switch got := get(t, flooder, joinPath, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%250)); got.code {
			case 200:
				served++
			case 429:
				refused++
				checkTooMany(t, got, "1")
			default:
				t.Fatalf("got %d", got.code)
			}
			time.Sleep(time.Second / rate)
		}
		wg.Wait()
		if least := defaultLimits.PerSourceBurst + seconds*int(defaultLimits.PerSource) - 1; served < least || served > least+1 {
			t.Errorf("%d requests were served", served)
		}
		if n := strings.Count(logged.String(), "level=WARN"); n < seconds || n > seconds+1 {
			t.Errorf("%d warnings:\n%.2000s", n, &logged)
		}
		if !strings.Contains(logged.String(), `msg="requests refused, too many" count=990 reason=rate_source source=192.0.2.1`) {
			t.Error("not logged how many")
		}
		want := fmt.Sprintf(`
# HELP dynk8s_artifact_refusals_total Requests to the artifact endpoint that were refused (401, 403, 429), by reason.
# TYPE dynk8s_artifact_refusals_total counter
dynk8s_artifact_refusals_total{reason="rate_source"} %d
`, refused)
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "dynk8s_artifact_refusals_total"); err != nil {
			t.Error(err)
		}
	})
}

func checkTooMany(t *testing.T, got response, retryAfter string) {
	t.Helper()
	if got.code != 429 || got.body != "too many requests\n" {
		t.Errorf("got %d %q", got.code, got.body)
	}
	checkHeader(t, got, map[string]string{
		"Retry-After": retryAfter, "Cache-Control": "no-store",
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
	})
}

// The limit comes before the route, and Retry-After from the bucket.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{Limits: Limits{PerSource: 0.1, PerSourceBurst: 2, Total: -1}})
		client := l.client(t, "192.0.2.1:1")
		for range 2 {
			if got := get(t, client, "/nonsense"); got.code != 404 {
				t.Errorf("got %d", got.code)
			}
		}
		checkTooMany(t, get(t, client, "/nonsense"), "10")
		time.Sleep(3500 * time.Millisecond)
		checkTooMany(t, get(t, client, joinPath), "7")
		time.Sleep(6500 * time.Millisecond)
		if got := get(t, client, joinPath); got.code != 200 {
			t.Errorf("after Retry-After: %d", got.code)
		}
		checkTooMany(t, get(t, client, joinPath), "10")
	})
}

// Requests that a source's bucket refuses leave the bucket for all alone; those
// that the latter refuses are charged to their source.
func TestTwoBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(Limits{PerSource: 1, PerSourceBurst: 3, Total: 1, TotalBurst: 5})
		take := func(source string, want string) {
			t.Helper()
			got := ""
			if err := l.take(netip.MustParseAddr(source)); err != nil {
				got = reasonOf(err)
			}
			if got != want {
				t.Errorf("%s: refused because of %q, want %q", source, got, want)
			}
		}
		for range 3 {
			take("192.0.2.1", "")
		}
		for range 100 {
			take("192.0.2.1", reasonRateSource)
		}
		take("192.0.2.2", "")
		take("192.0.2.2", "")
		take("192.0.2.2", reasonRateTotal)
		take("192.0.2.2", reasonRateSource)
		take("192.0.2.3", reasonRateTotal)
		time.Sleep(time.Second)
		take("192.0.2.3", "")
		take("192.0.2.3", reasonRateTotal)
	})
}

func TestIPv6SourcesShareTheirNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := servePipes(t, fixedArtifacts{}, AnyCaller(), ArtifactConfig{Limits: Limits{PerSource: 1, PerSourceBurst: 1}})
		for from, want := range map[string]int{"[2001:db8:0:1::1]:1": 200, "[2001:db8:0:2::1]:1": 200, "[::ffff:192.0.2.1]:1": 200} {
			if got := get(t, l.client(t, from), joinPath); got.code != want {
				t.Errorf("%s: %d", from, got.code)
			}
		}
		for _, from := range []string{"[2001:db8:0:1:ffff::2]:1", "[2001:db8:0:2::2%eth0]:1", "192.0.2.1:2"} {
			checkTooMany(t, get(t, l.client(t, from), joinPath), "1")
		}
	})
}

func TestLimitsDefaults(t *testing.T) {
	t.Parallel()
	set := Limits{PerSource: 1, PerSourceBurst: 2, Total: 3, TotalBurst: 4}
	if got := set.orDefault(); got != set {
		t.Errorf("got %+v", got)
	}
	if got := (Limits{PerSourceBurst: -1}).orDefault(); got != defaultLimits {
		t.Errorf("got %+v", got)
	}
	l := newLimiter(noLimits)
	for range 10_000 {
		if err := l.take(netip.MustParseAddr("192.0.2.1")); err != nil {
			t.Fatal(err)
		}
	}
}

// However slow a bucket is filled, nobody is told to stay away for weeks.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for _, perSource := range []float64{math.SmallestNonzeroFloat64, 1e-9, 1e9, math.MaxFloat64} {
		l := newLimiter(Limits{PerSource: perSource, PerSourceBurst: 1, Total: -1})
		for range 100 {
			err := l.take(netip.Addr{})
			if err == nil {
				continue
			}
			if a := answerTo(err); a.code != http.StatusTooManyRequests || (a.retryAfter != "1" && a.retryAfter != "3600") {
				t.Errorf("%g a second: %+v", perSource, a)
			}
		}
	}
}
