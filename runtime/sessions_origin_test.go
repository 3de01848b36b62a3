package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/policy"
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

// Identities that look like keys are as they are in a snapshot too, and a worker does
// not keep the snapshots that it has stored.
func TestSnapshotsHaveIdentities(t *testing.T) {
	m := &companion{say: func(_ string, step int) (model.Response, error) {
		if step == 0 {
			return asks(`pay {"text":"sk-proj-a1b2c3d4e5f6a7b8c9d0a1b2c3d4"}`), nil
		}
		return model.Response{}, nil
	}}
	w := newWorld(t, m, pay(tools.Definition{Identity: []string{"text"}, Trust: tools.Own}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "paid " + strings.Repeat("x", 400), nil
	}))
	w.compacted(events.Compaction{At: 60, Keep: 2, With: events.CompactedBySummary, Window: 3000})
	k := w.start()
	w.wait(w.continued("s", "message").ID, false)
	before, snapshots := k.Remembered(), 0
	for i := range 10 {
		r := w.wait(w.continued("s", fmt.Sprint("message ", i)).ID, false)
		if r.State != ledger.Finished {
			t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
		}
		for _, e := range w.history(r.ID) {
			if c, ok := e.Data.(events.TranscriptCompacted); ok {
				if snapshots++; c.Snapshot.IsZero() {
					t.Errorf("run %d: no snapshot", i)
				}
			}
		}
		if msgs := w.told(r.ID).Messages(); !slices.ContainsFunc(msgs, func(m model.Message) bool {
			return len(m.Calls) > 0 && strings.Contains(string(m.Calls[0].Arguments), "sk-proj-a1b2")
		}) {
			t.Errorf("run %d has another identity: %+v", i, msgs)
		}
	}
	if snapshots < 2 {
		t.Errorf("%d snapshots", snapshots)
	}
	if n := k.Remembered(); n != before {
		t.Errorf("a worker remembers %d contents after %d snapshots, %d before", n, snapshots, before)
	}
}

// Rules count the turns of the run, as its limits do.
func TestRulesCountTheRunsOwnTurns(t *testing.T) {
	m := &companion{say: func(_ string, step int) (model.Response, error) {
		if step == 0 {
			return asks(payX), nil
		}
		return model.Response{}, nil
	}}
	w := newWorld(t, m, pay(tools.Definition{Trust: tools.Own}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil }))
	w.agent = func(a *agents.Agent) {
		a.Policy = policy.Must(`agent "tester"`, policy.Rule{When: `run.turn > 1`, Then: policy.Deny, Because: "late"})
	}
	w.start()
	for _, say := range []string{"one", "two"} {
		r := w.wait(w.continued("s", say).ID, false)
		if r.State != ledger.Finished || count[events.ToolExecutionBlocked](w, r.ID) != 0 {
			t.Errorf("%s: %s %s\n%s", say, r.State, r.Error, w.story(r.ID))
		}
	}
}

// loses has the archive without an event.
func (w *world) loses(id events.RunID, seq int) {
	w.exec(`DELETE FROM events WHERE run_id = ? AND seq = ?`, id[:], seq)
}

// A run that can never be told what came before is not in the way for ever: whoever
// cancels it lets those behind it go.
func TestUnreadableSessionIsLetGoByCancelling(t *testing.T) {
	w := newWorld(t, new(companion), looker())
	k := w.start()
	first := w.wait(w.continued("s", "one").ID, false)
	k.stop(t)
	w.loses(first.ID, 3)
	second := w.continued("s", "two")
	w.start()
	w.until("it is marked as unreadable", func() bool {
		r, err := w.store.Run(t.Context(), second.ID)
		return err == nil && r.Unreadable != ""
	})
	if _, err := w.client().Cancel(t.Context(), second.ID, "operator", "its session is lost"); err != nil {
		t.Fatal(err)
	}
	if r := w.wait(second.ID, false); r.State != ledger.Cancelled {
		t.Errorf("it is %s, want cancelled", r.State)
	}
}

// endless is a ledger in which every run that is gone on from goes on from itself.
type endless struct{ runtime.Ledger }

func (l endless) Run(ctx context.Context, id events.RunID) (ledger.Run, error) {
	r, err := l.Ledger.Run(ctx, id)
	r.Continues, r.SessionPlace = ledger.Origin{Run: r.ID, Seq: 1}, 0
	return r, err
}

// A session that has grown beyond what can be read ends its runs and says what to do.
func TestSessionThatIsTooLong(t *testing.T) {
	w := newWorld(t, new(companion), looker())
	k := w.start()
	w.wait(w.continued("s", "one").ID, false)
	k.stop(t)
	w.startOn(endless{w.store})
	r := w.wait(w.continued("s", "two").ID, false)
	if r.State != ledger.Failed || !strings.Contains(r.Error, "begin another session") {
		t.Errorf("it is %s (%s), want failed, with what to do", r.State, r.Error)
	}
}
