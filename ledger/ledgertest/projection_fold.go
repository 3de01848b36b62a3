package ledgertest

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

func testFoldBehind(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.turn(1, 3)
	es := a.prefix
	a.flush()
	if n, err := h.Store.FoldBehind(t.Context(), time.Minute, 10); n != 0 || err != nil {
		t.Errorf("folded %d at once, %v", n, err)
	}
	h.Advance(2 * time.Second)
	if n, err := h.Store.FoldBehind(t.Context(), time.Second, 10); n != len(es) || err != nil {
		t.Errorf("folded %d, %v; want %d", n, err, len(es))
	}
	h.wantRows(t, es)
	// The journal brings the same, and then more.
	a.turn(2, 3)
	more := a.sent()
	if p := h.project(t, append(es, more...)...); p.Duplicates != len(es) || p.Folded != len(more) {
		t.Errorf("projected %+v", p)
	}
	h.wantRows(t, append(es, more...))
}

func testFoldBehindRound(t *testing.T, h Harness) {
	for range 3 { // these wait for their first event for ever
		a := start(t, h)
		a.opening()
		h.project(t, a.sent()[1])
	}
	a := start(t, h)
	a.opening()
	es := a.prefix
	a.flush()
	h.Advance(10 * time.Second)
	folded := 0
	for range 4 {
		n, err := h.Store.FoldBehind(t.Context(), time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		folded += n
	}
	if folded != len(es) {
		t.Errorf("folded %d events, want %d", folded, len(es))
	}
}

func testRebuild(t *testing.T, h Harness) {
	var histories [][]events.Sealed
	for i := range 3 {
		_, es := plainRun(t, h, i+1, 3)
		h.project(t, es...)
		histories = append(histories, es)
	}
	// A run long enough for several transactions.
	a := start(t, h)
	a.opening()
	for i := range 1100 {
		a.note(events.TurnStarted{Turn: i + 1})
	}
	a.turn(2000, 2)
	long := a.sent()
	for i := 0; i < len(long); i += 500 {
		h.project(t, long[i:min(i+500, len(long))]...)
	}
	histories = append(histories, long)
	h.sql(t, `UPDATE tool_call_records SET tool = 'forged'`)
	h.sql(t, `DELETE FROM model_calls WHERE seq > 10`)
	h.sql(t, `UPDATE run_summaries SET cost_pico = 1`)
	if err := h.Store.Rebuild(t.Context(), events.RunID{}); err != nil {
		t.Fatal(err)
	}
	for _, es := range histories {
		h.wantRows(t, es)
	}
	h.sql(t, `DELETE FROM run_summaries`)
	if err := h.Store.Rebuild(t.Context(), a.run.ID); err != nil {
		t.Fatal(err)
	}
	h.wantRows(t, long)
}
