package runtime

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeaseEndsOnWhicheverClockIsFirst lets the wall clock jump and stand still
// while the monotonic one goes on. RELIABILITY row 21.
func TestLeaseEndsOnWhicheverClockIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		// A time without its monotonic reading is what a machine that slept reads.
		now := func() time.Time {
			if j := jump.Load(); j != 0 {
				return time.Now().Round(0).Add(time.Duration(j))
			}
			return time.Now()
		}
		lease := func() (*localLease, context.Context) {
			ctx, cancel := context.WithCancelCause(t.Context())
			return newLocalLease(now, now(), 15*time.Second, cancel), ctx
		}
		l, ctx := lease()
		time.Sleep(14 * time.Second)
		if l.check() || ctx.Err() != nil {
			t.Error("ended early")
		}
		jump.Store(int64(time.Hour)) // forward
		if !l.check() || !errors.Is(context.Cause(ctx), errLeaseLost) {
			t.Errorf("the wall clock is past its end: %s left", l.left())
		}
		l.extend(now(), time.Hour)
		if l.left() > 0 {
			t.Error("a lease that has ended came back")
		}
		jump.Store(0)
		l, ctx = lease()
		synctest.Wait()
		time.Sleep(15 * time.Second) // by the monotonic clock alone
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), errLeaseLost) || l.left() > 0 {
			t.Errorf("its time is over: %s left", l.left())
		}
		l.stop()
	})
}

// TestLeaseIsExtendedFromTheRequest: an answer that took 4 s extends it by 11.
func TestLeaseIsExtendedFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l := newLocalLease(time.Now, time.Now(), 15*time.Second, cancel)
		time.Sleep(5 * time.Second)
		sent := time.Now()
		time.Sleep(4 * time.Second)
		l.extend(sent, 15*time.Second)
		l.extend(sent.Add(-time.Second), 15*time.Second) // answers may overtake each other
		if got := l.left(); got != 11*time.Second {
			t.Errorf("%s left, want 11s", got)
		}
		time.Sleep(11*time.Second - time.Nanosecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("ended before its new end")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), errLeaseLost) {
			t.Error("still held at its new end")
		}
		l.stop()
	})
}

// TestBackoffOfTheDatabase: 50 ms doubling to 1 s, less up to a half at random.
func TestBackoffOfTheDatabase(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: 50, 2: 100, 3: 200, 4: 400, 5: 800, 6: 1000, 7: 1000, 1 << 20: 1000} {
		want *= time.Millisecond
		if got := backoff(attempt, func() float64 { return 0 }); got != want {
			t.Errorf("attempt %d waits %s, want %s", attempt, got, want)
		}
		if got := backoff(attempt, func() float64 { return 1 }); got != want/2 {
			t.Errorf("attempt %d waits at least %s, want %s", attempt, got, want/2)
		}
	}
}
