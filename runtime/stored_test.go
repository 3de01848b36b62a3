package runtime_test

import (
	"database/sql"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/tools"
)

// A turn of a long run stores no more than one of a short run, with and without
// compaction: events carry what happened, never the transcript again. bench -parts=stored
// has the figures of PostgreSQL and of the journal.
func TestTurnOfALongRunStoresNoMore(t *testing.T) {
	stored := func(t *testing.T, turns int, c *events.Compaction) (perTurn int64, compactions int) {
		w := newLoneWorld(t, &talker{turns: turns}, lookout(tools.Own))
		w.limits.MaxTurns = turns + 1
		if c != nil {
			w.compacted(*c)
		}
		w.limits.MaxTurns = turns + 1
		k := w.start()
		r := w.wait(w.submit("go").ID, false)
		k.stop(t)
		if r.State != ledger.Finished {
			t.Fatalf("%s %s", r.State, r.Error)
		}
		db, err := sql.Open("sqlite", w.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var n int64
		err = db.QueryRow(`SELECT (SELECT sum(length(bytes)) FROM events) + (SELECT coalesce(sum(length(content)), 0) FROM blobs)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		h := loops.NewHistory(r.ID)
		for _, e := range w.history(r.ID) {
			if err := h.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		return n / int64(turns), h.Compactions()
	}
	c := byHalf(12_000)
	for name, c := range map[string]*events.Compaction{"whole": nil, "compacted": &c} {
		t.Run(name, func(t *testing.T) {
			short, _ := stored(t, 50, c)
			long, n := stored(t, 200, c)
			t.Logf("%d bytes a turn in a run of 50 turns, %d in one of 200 with %d compactions", short, long, n)
			if long > short*11/10 {
				t.Errorf("a turn of 200 stores %d bytes, one of 50 stored %d", long, short)
			}
			if (c != nil) != (n > 3) {
				t.Errorf("%d compactions", n)
			}
		})
	}
}
