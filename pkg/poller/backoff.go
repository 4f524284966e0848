package poller

import (
	"math/rand/v2"
	"time"
)

// backoffRange bounds the time until a failed message is seen again.
type backoffRange struct{ min, max time.Duration }

// after returns a time that doubles with every receive, spread by chance over
// most of what is possible so that messages which failed together do not come
// back together.
func (b backoffRange) after(receives int) time.Duration {
	ceiling := min(2*b.min, b.max)
	for i := 1; i < receives && ceiling < b.max; i++ {
		ceiling = min(2*ceiling, b.max)
	}
	floor := max(b.min, ceiling/4)
	return floor + rand.N(ceiling-floor+1) //nolint:gosec // chance, not a secret
}
