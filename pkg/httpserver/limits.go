package httpserver

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound the requests that are looked at; more are answered 429. The
// rates are requests a second, where zero means the default and less means no
// limit. The bursts are requests that may come at once above the rate, where
// less than one means the default.
//
// A source is an IPv4 address or the /64 of an IPv6 address. Its limit comes
// first, so that one source cannot use up what is for all.
type Limits struct {
	// PerSource is for each source, by default 10 requests a second, and 60 at
	// once.
	PerSource      float64
	PerSourceBurst int
	// Total is for all sources together, by default 200 requests a second, and
	// 400 at once.
	Total      float64
	TotalBurst int
}

// defaultLimits are what the zero Limits mean.
var defaultLimits = Limits{PerSource: 10, PerSourceBurst: 60, Total: 200, TotalBurst: 400}

func (l Limits) orDefault() Limits {
	if l.PerSource == 0 {
		l.PerSource = defaultLimits.PerSource
	}
	if l.PerSourceBurst < 1 {
		l.PerSourceBurst = defaultLimits.PerSourceBurst
	}
	if l.Total == 0 {
		l.Total = defaultLimits.Total
	}
	if l.TotalBurst < 1 {
		l.TotalBurst = defaultLimits.TotalBurst
	}
	return l
}

// limiter applies Limits.
type limiter struct {
	sources *sourceBuckets // nil: no limit
	total   *rate.Limiter  // nil: no limit
}

func newLimiter(l Limits) *limiter {
	l = l.orDefault()
	limiter := new(limiter)
	if l.PerSource > 0 {
		limiter.sources = newSourceBuckets(rate.Limit(l.PerSource), l.PerSourceBurst)
	}
	if l.Total > 0 {
		limiter.total = rate.NewLimiter(rate.Limit(l.Total), l.TotalBurst)
	}
	return limiter
}

// tooManyRequests says that a request came too soon after others.
type tooManyRequests struct {
	reason  string
	seconds int // until one more may come
}

func (e *tooManyRequests) Error() string {
	return fmt.Sprintf("too many requests (%s), retry after %ds", e.reason, e.seconds)
}

// Reason is the word for the metric.
func (e *tooManyRequests) Reason() string { return e.reason }

// take takes one token of the source's bucket and one of the bucket for all.
// What the latter refuses is charged to the source all the same: a source that
// floods must not have more tries at it than others.
func (l *limiter) take(source netip.Addr) error {
	now := time.Now()
	if l.sources != nil {
		if seconds, ok := l.sources.take(group(source), now); !ok {
			return &tooManyRequests{reasonRateSource, seconds}
		}
	}
	if l.total != nil {
		if seconds, ok := takeFrom(l.total, now); !ok {
			return &tooManyRequests{reasonRateTotal, seconds}
		}
	}
	return nil
}

// takeFrom takes one token, or returns after how many seconds there is one.
func takeFrom(bucket *rate.Limiter, now time.Time) (seconds int, ok bool) {
	if bucket.AllowN(now, 1) {
		return 0, true
	}
	const longest = 3600 // tell nobody to stay away for longer
	wait := math.Ceil((1 - bucket.TokensAt(now)) / float64(bucket.Limit()))
	return int(min(max(wait, 1), longest)), false
}
