package runtime

import (
	"sync"
	"time"

	"github.com/daybookhq/daybook/model"
)

// lapses has a worker claim less often while its leases end under it, one after
// the other: with a database that answers claims and is too slow for heartbeats,
// or on a machine that stands still again and again, it would take runs over from
// itself as fast as it can, an epoch each time.
type lapses struct {
	mu    sync.Mutex
	n     int // in a row; those of one pause count once
	until time.Time
}

// lapsed says that a lease ended before its session did.
func (l *lapses) lapsed(now time.Time, random func() float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.until) {
		return // it was claimed along with the last one
	}
	l.n++
	l.until = now.Add(model.Backoff(l.n, 0, random))
}

// held says that a lease was extended, or lasted for as long as it was needed.
func (l *lapses) held() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n, l.until = 0, time.Time{}
}

// wait is how long nothing is to be claimed.
func (l *lapses) wait(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.until.Sub(now), 0)
}
