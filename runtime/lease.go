package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// Causes that end a session's context.
var (
	errLeaseLost = fmt.Errorf("another worker may hold the run: %w", tools.ErrLeaseLost)
	errCancelled = errors.New("run is cancelled")
	errDeadline  = errors.New("run deadline passed")
	errShutdown  = errors.New("worker shuts down")
)

// localLease is the holder's view of its lease. It counts from before the
// request to the database was sent, on the monotonic and on the wall clock, and
// whichever ends first ends it: a machine that slept, and one whose clock
// jumped, both stop.
type localLease struct {
	now    func() time.Time
	mu     sync.Mutex
	until  time.Time
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newLocalLease(now func() time.Time, sent time.Time, remaining time.Duration, cancel context.CancelCauseFunc) *localLease {
	l := &localLease{now: now, cancel: cancel, until: sent.Add(remaining)}
	l.timer = time.AfterFunc(l.until.Sub(now()), l.expire)
	return l
}

func (l *localLease) expire() { l.check() }

// check ends what hangs on the lease if it has ended, by whichever clock, and
// reports whether it has. The timer alone would not see a wall clock that jumped.
func (l *localLease) check() (ended bool) {
	if ended = l.left() <= 0; ended {
		l.cancel(errLeaseLost)
	}
	return ended
}

// extend moves the end on; a lease that has ended locally stays ended.
func (l *localLease) extend(sent time.Time, remaining time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.leftAt(now) <= 0 {
		return
	}
	if until := sent.Add(remaining); until.After(l.until) {
		l.until = until
		l.timer.Reset(until.Sub(now))
	}
}

// end is the local moment after which nothing may be done under this lease.
func (l *localLease) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *localLease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftAt(l.now())
}

func (l *localLease) leftAt(now time.Time) time.Duration {
	mono := l.until.Sub(now)
	wall := l.until.Round(0).Sub(now.Round(0))
	return min(mono, wall)
}

func (l *localLease) stop() { l.timer.Stop() }
