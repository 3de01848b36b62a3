package ledgertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

func dbNow(t tb, h Harness) (now time.Time) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) (err error) {
		now, err = tx.Now(ctx)
		return err
	})
	if err != nil {
		t.Fatalf("now: %v", err)
	}
	return now
}

func testAuditBehind(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	h.Advance(6 * time.Minute)
	b := tryTake(t, h, a.run) // and does not append what came in
	b.note(events.TurnStarted{Turn: 2})
	_, err := b.begin(refund(call(2, 0), order(8)))
	wantError(t, err, ledger.ErrAuditBehind)
	if h.archived(t, a.run.ID) != 2 {
		t.Error("the refused barrier did not keep its prefix")
	}
	b.prefix = nil
	if n := h.count(t, `SELECT count(*) FROM effects`); n != 1 {
		t.Errorf("%d effects, want the first alone", n)
	}
	b.want(ledger.Replay, refund(call(2, 0)))  // nothing runs, so nothing is refused
	start(t, h).want(ledger.Execute, refund()) // only the run that is behind waits
	b.flush()
	b.want(ledger.Execute, refund(call(2, 0), order(8)))
}

// auditMax is the store's default bound on pending effect facts.
const auditMax = 10_000

func testAuditMax(t *testing.T, h Harness) {
	a := start(t, h)
	now := dbNow(t, h)
	fill := func(typ string, from, n int) {
		rows := make([][]any, n)
		for i := range rows {
			rows[i] = []any{a.run.ID, testIDs.Event(), typ, 1, "", []byte(fmt.Sprintf(`{"n":%d}`, from+i)), now}
		}
		write(t, h.DB, func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.InsertMany(ctx, "facts", []string{"run_id", "event_id", "type", "version", "trace", "data", "created_at"}, rows, "")
			return err
		})
	}
	fill("signal_received", 0, auditMax) // which are no effects
	fill("tool_execution_finished", auditMax, auditMax-2)
	b := start(t, h)                 // only now: on a slow machine a lease would not outlive the filling
	b.want(ledger.Execute, refund()) // makes one more
	h.Advance(2 * time.Second)       // the count is kept for one
	b.want(ledger.Execute, refund(order(8), call(2, 0)))
	fill("effect_resolved", 0, 2)
	h.Advance(2 * time.Second)
	v, err := b.begin(refund(order(9), call(3, 0)))
	wantError(t, err, ledger.ErrAuditBehind)
	if !cmp.Equal(v, ledger.Verdict{}) {
		t.Errorf("verdict: %+v", v)
	}
}
