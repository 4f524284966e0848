package httpserver

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// numbered returns one address of many.
func numbered(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// takes takes n tokens at once and returns how many it got.
func takes(b *sourceBuckets, source netip.Addr, now time.Time, n int) (got int) {
	for range n {
		if _, ok := b.take(source, now); ok {
			got++
		}
	}
	return got
}

// Many addresses do not push out the bucket that one has emptied.
func TestEmptyBucketStays(t *testing.T) {
	t.Parallel()
	b, now, hot := newSourceBuckets(10, 60), time.Now(), netip.MustParseAddr("192.0.2.1")
	b.max = 100
	if got := takes(b, hot, now, 100); got != 60 {
		t.Errorf("%d tokens of a new bucket", got)
	}
	for i := range 1000 {
		b.take(numbered(i), now)
	}
	if got := takes(b, hot, now, 1); got != 0 {
		t.Error("the bucket is full again")
	}
	if len(b.buckets) != 100 || len(b.places) != 100 {
		t.Errorf("%d buckets, %d places", len(b.buckets), len(b.places))
	}
	// Those who came late share a bucket, which is empty.
	if got := takes(b, netip.MustParseAddr("192.0.2.2"), now, 1); got != 0 {
		t.Error("a bucket for one more")
	}
	// The others are full again in a moment, and make place.
	now = now.Add(time.Second)
	if got := takes(b, netip.MustParseAddr("192.0.2.2"), now, 100); got != 60 {
		t.Errorf("%d tokens of a new bucket", got)
	}
	for i := range 1000 {
		b.take(numbered(i), now)
	}
	if got := takes(b, hot, now, 100); got != 10 {
		t.Errorf("%d tokens after a second", got)
	}
}

func TestIdleBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	const sources = 5000
	b, now := newSourceBuckets(10, 60), time.Now()
	for i := range sources {
		b.take(numbered(i), now)
	}
	if len(b.buckets) != sources {
		t.Errorf("%d buckets", len(b.buckets))
	}
	now = now.Add(time.Minute)
	for range sources/(sweepStep-1) + 1 {
		b.take(numbered(0), now)
	}
	if len(b.buckets) != 1 || len(b.places) != 1 {
		t.Errorf("%d buckets, %d places", len(b.buckets), len(b.places))
	}
}

// Whatever comes, a source with a bucket gets what it would get if none were
// ever forgotten, and places are right.
func TestBucketsForgetNothing(t *testing.T) {
	t.Parallel()
	const limit, burst = 5, 7
	b, now, random := newSourceBuckets(limit, burst), time.Now(), rand.New(rand.NewPCG(1, 2))
	b.max = 20
	kept, shared := map[netip.Addr]*rate.Limiter{}, 0
	for range 10_000 {
		source := numbered(int(random.ExpFloat64() * 15))
		_, ok := b.take(source, now)
		if kept[source] == nil {
			kept[source] = rate.NewLimiter(limit, burst)
		}
		if _, own := b.places[source]; !own {
			shared++
		} else if want := kept[source].AllowN(now, 1); ok != want {
			t.Fatalf("%v: got a token: %v, want %v", source, ok, want)
		}
		if len(b.buckets) != len(b.places) || len(b.buckets) > b.max {
			t.Fatalf("%d buckets, %d places", len(b.buckets), len(b.places))
		}
		for source, place := range b.places {
			if b.buckets[place].source != source {
				t.Fatalf("%v is at the place of %v", b.buckets[place].source, source)
			}
		}
		now = now.Add(time.Duration(random.ExpFloat64() * float64(10*time.Millisecond)))
	}
	if shared == 0 || shared > 8_000 {
		t.Errorf("the common bucket was used %d times: the test tests nothing", shared)
	}
}

// Every request from another address: what a flood costs.
func BenchmarkSourceBuckets(b *testing.B) {
	for name, interval := range map[string]time.Duration{"full": time.Microsecond / 10, "sparse": 10 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			buckets, now := newSourceBuckets(10, 60), time.Now()
			for i := range 1 << 20 {
				buckets.take(numbered(i), now)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			i := 0
			for b.Loop() {
				i++
				now = now.Add(interval)
				buckets.take(numbered(i&0xffffff), now)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		})
	}
}
