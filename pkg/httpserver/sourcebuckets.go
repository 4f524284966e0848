package httpserver

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxSources bounds the memory for sources, to some 16 MiB.
	maxSources = 1 << 16
	// sweepStep is how many buckets each request looks at: more than the one
	// that it may add, so that they get fewer when sources stay away.
	sweepStep = 4
)

// sourceBuckets is one token bucket for each source.
//
// A bucket is forgotten only when it is full again, for then it says no more
// than one that was never made: nobody gets a new bucket for an empty one by
// coming from many addresses. When all places are taken by buckets that are not
// full, which takes as many requests a second as all of them are refilled by,
// sources without one share a bucket.
type sourceBuckets struct {
	limit rate.Limit
	burst int
	max   int

	mu      sync.Mutex
	buckets []sourceBucket
	places  map[netip.Addr]int // in buckets
	hand    int                // in buckets, where the sweep goes on
	common  *rate.Limiter
}

type sourceBucket struct {
	source netip.Addr
	tokens *rate.Limiter
}

func newSourceBuckets(limit rate.Limit, burst int) *sourceBuckets {
	return &sourceBuckets{
		limit: limit, burst: burst, max: maxSources,
		places: make(map[netip.Addr]int),
		common: rate.NewLimiter(limit, burst),
	}
}

// take takes one token of the source's bucket, or returns after how many
// seconds there is one. Its cost does not depend on the number of sources.
func (b *sourceBuckets) take(source netip.Addr, now time.Time) (seconds int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range min(sweepStep, len(b.buckets)) {
		b.sweep(now)
	}
	return takeFrom(b.bucket(source), now)
}

// sweep forgets the bucket at the hand if it is full, else goes on to the next.
func (b *sourceBuckets) sweep(now time.Time) {
	if b.hand >= len(b.buckets) {
		b.hand = 0
	}
	swept := b.buckets[b.hand]
	if swept.tokens.TokensAt(now) < float64(b.burst) {
		b.hand++
		return
	}
	last := len(b.buckets) - 1
	moved := b.buckets[last]
	b.buckets[b.hand], b.places[moved.source] = moved, b.hand
	b.buckets[last] = sourceBucket{}
	b.buckets = b.buckets[:last]
	delete(b.places, swept.source)
}

// bucket returns the source's bucket, a new one if need be.
func (b *sourceBuckets) bucket(source netip.Addr) *rate.Limiter {
	if place, found := b.places[source]; found {
		return b.buckets[place].tokens
	}
	if len(b.buckets) >= b.max {
		return b.common
	}
	tokens := rate.NewLimiter(b.limit, b.burst)
	b.places[source] = len(b.buckets)
	b.buckets = append(b.buckets, sourceBucket{source, tokens})
	return tokens
}
