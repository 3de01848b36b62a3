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
