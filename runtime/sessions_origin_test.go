package runtime_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// A fork of a run that begins at a snapshot has the turns of that run, not the session's.
func TestForkOfASessionsRunBehindACompaction(t *testing.T) {
	m := new(companion)
	w := newWorld(t, m, looker())
	w.compacted(events.Compaction{At: 60, Keep: 2, With: events.CompactedBySummary, Window: 4000})
	w.limits.MaxTurns = 4 // two of the origin's, two of its own
	w.start()
	var ids []events.RunID
	for i := range 14 {
		r := w.wait(w.continued("s", fmt.Sprint("message ", i)).ID, false)
		if r.State != ledger.Finished {
			t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
		}
		ids = append(ids, r.ID)
	}
	compacted := ids[slices.IndexFunc(ids, func(id events.RunID) bool {
		return slices.ContainsFunc(w.history(id), func(e events.Event) bool { return e.Type == events.TypeOf(events.TranscriptCompacted{}) })
	})]
	for _, id := range []events.RunID{compacted, ids[len(ids)-1]} {
		end := w.history(id)[len(w.history(id))-1].Seq
		f := w.wait(w.fork(id, end, "and in French").ID, false)
		if f.State != ledger.Finished || f.StoppedBy == events.StoppedByMaxTurns {
			t.Fatalf("%s by %s: %s\n%s", f.State, f.StoppedBy, f.Error, w.story(f.ID))
		}
		if e := last[events.RunFinished](w, f.ID); e.Turns != 4 {
			t.Errorf("the fork ended after %d turns", e.Turns)
		}
		g := w.wait(w.fork(f.ID, 3, nil).ID, false) // of the fork
		if g.State != ledger.Finished || w.told(g.ID).Turns() > 4 {
			t.Errorf("%s %s, %d turns", g.State, g.Error, w.told(g.ID).Turns())
		}
	}
	w.whole()
}
