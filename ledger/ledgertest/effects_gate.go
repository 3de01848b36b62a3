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

// approval inserts an approval of a call as its approver would leave it.
func approval(t tb, h Harness, run events.RunID, c events.CallID, state string, valid time.Duration) events.ID {
	t.Helper()
	id := testIDs.Event()
	now := dbNow(t, h)
	h.sql(t, `INSERT INTO approvals (id, run_id, turn, call_index, digest, state, expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		id, run, c.Turn, c.Index, events.Hash{1}, state, now.Add(valid), now)
	return id
}

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

func approved(id events.ID) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Approval = id }
}

func consumed(t tb, h Harness, id events.ID) bool {
	t.Helper()
	return h.count(t, `SELECT count(*) FROM approvals WHERE id = $1 AND state = 'consumed' AND consumed_at IS NOT NULL`, id) == 1
}

func testApproval(t *testing.T, h Harness) {
	a := start(t, h)
	c := refund().Call
	other := start(t, h)
	for name, id := range map[string]events.ID{
		"unknown":            testIDs.Event(),
		"not decided":        approval(t, h, a.run.ID, c, "requested", time.Hour),
		"denied":             approval(t, h, a.run.ID, c, "denied", time.Hour),
		"expired":            approval(t, h, a.run.ID, c, "approved", -time.Second),
		"another call's":     approval(t, h, a.run.ID, events.CallID{Turn: 2}, "approved", time.Hour),
		"another run's call": approval(t, h, other.run.ID, c, "approved", time.Hour),
	} {
		a.note(events.TurnStarted{Turn: 1})
		v, err := a.begin(refund(approved(id)))
		wantError(t, err, ledger.ErrNotApproved)
		if v.Kind != 0 || h.archived(t, a.run.ID) != int(a.seq) {
			t.Errorf("%s: %s, %d events of %d kept", name, verdictName(v.Kind), h.archived(t, a.run.ID), a.seq)
		}
		a.prefix = nil
	}
	if n := h.count(t, `SELECT count(*) FROM effects WHERE run_id = $1`, a.run.ID); n != 0 {
		t.Errorf("refused begins left %d effects", n)
	}
	id := approval(t, h, a.run.ID, c, "approved", time.Hour)
	fenced := recovery(ledger.RecoveryFenced)
	in := refund(approved(id), fenced)
	a.want(ledger.Execute, in)
	if !consumed(t, h, id) {
		t.Error("not consumed")
	}
	a.want(ledger.Execute, in) // the same token, the same use
	b := a.successor()
	again := refund(approved(id), fenced)
	b.want(ledger.Execute, again) // a repetition of the same effect, too
	b.end(again.Token, ledger.Applied)
	_, err := b.begin(refund(approved(id), order(8)))
	wantError(t, err, ledger.ErrNotApproved)
	b.want(ledger.Replay, refund(approved(id), call(2, 0))) // nothing runs, nothing is used
}

func testApprovalOfTheFirst(t *testing.T, h Harness) {
	const n = 8
	opts := func(id events.ID) ledger.Intent {
		return refund(scope(ledger.ScopeTenant, time.Hour), approved(id))
	}
	as, ids, kinds := make([]*actor, n), make([]events.ID, n), make([]ledger.VerdictKind, n)
	for i := range as {
		as[i] = start(t, h)
		ids[i] = approval(t, h, as[i].run.ID, events.CallID{Turn: 1}, "approved", time.Hour)
	}
	together(n, func(i int) {
		v, err := h.Store.Begin(t.Context(), as[i].lease, nil, opts(ids[i]))
		if err != nil {
			t.Error(err)
		}
		kinds[i] = v.Kind
	})
	for i, k := range kinds {
		if (k == ledger.Execute) != consumed(t, h, ids[i]) {
			t.Errorf("%s, consumed %v", verdictName(k), consumed(t, h, ids[i]))
		}
	}
	if got := h.count(t, `SELECT count(*) FROM approvals WHERE state = 'consumed'`); got != 1 {
		t.Errorf("%d approvals were used, want 1", got)
	}
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
