package runtime

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// lapsing grants leases of 100 ms, and answers nothing else for as long as
// anybody waits.
type lapsing struct {
	Ledger
	ids    *events.IDs
	claims atomic.Int64
}

func (l *lapsing) Claim(_ context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	l.claims.Add(1)
	run := ledger.Run{ID: l.ids.Run()}
	return []ledger.Claim{{Run: run, Lease: ledger.Lease{RunID: run.ID, Worker: r.Worker, Remaining: 100 * time.Millisecond}}}, nil
}

func (l *lapsing) TenantKey(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestLeasesThatLapseAreNotClaimedAtFullSpeed: with the pauses of Backoff, 1 s
// doubling to its cap, and at full speed again once a lease holds.
func TestLeasesThatLapseAreNotClaimedAtFullSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lapsing{ids: events.NewIDs(time.Now, nil)}
		w := &Worker{
			cfg: Config{
				Name: "w", Ledger: l, Concurrency: 1, LeaseTTL: 100 * time.Millisecond, Sweep: time.Hour, Now: time.Now,
				Redactor: redact.New(redact.Config{}), Random: func() float64 { return 1 },
			},
			log: slog.New(slog.DiscardHandler), sessions: map[events.RunID]*session{}, freed: make(chan struct{}, 1),
		}
		w.life, w.die = context.WithCancelCause(context.Background())
		defer w.die(nil)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			w.claims(ctx, nil)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		// 0.1 s each, and pauses of 1, 2, 4, 8, 16 and 32 s.
		if n := l.claims.Load(); n != 6 {
			t.Errorf("%d claims in a minute, want 6", n)
		}
		w.lapses.held()
		if got := w.lapses.wait(time.Now()); got != 0 {
			t.Errorf("a lease was held, and nothing is claimed for %v", got)
		}
		cancel()
		<-over
		w.wg.Wait()
	})
}
