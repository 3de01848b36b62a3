package runtime_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/migrations"
)

// readHistory reads what an earlier version recorded: an event a line, with its hash.
func readHistory(t *testing.T, path string) (es []events.Event) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Hash  events.Hash     `json:"hash"`
			Event json.RawMessage `json:"event"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		s, err := events.Parse(l.Event, l.Hash)
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.Decode()
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}

// What an earlier version recorded is read, folds up to any event and goes on
// from there, and the loop decides as it did. temporalio/sdk-go#1594: a history
// cut at any event is a history.
func TestRecordedHistoriesOfEarlierVersions(t *testing.T) {
	files, err := filepath.Glob("testdata/v*/histories/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recorded histories, %v", len(files), err)
	}
	for _, file := range files {
		es := readHistory(t, file)
		loop := loopOf(es)
		ds, err := loops.Rehearse(loops.NewHistory(es[0].RunID), es, loop)
		if err != nil || len(ds) > 0 {
			t.Errorf("%s: %v %v", file, ds, err)
		}
		for cut := 1; cut <= len(es); cut++ {
			h, fork := loops.NewHistory(es[0].RunID), loops.NewHistory(events.RunID{9})
			for _, e := range es[:cut] {
				if err := h.Apply(e); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if err := fork.Inherit(e); err != nil {
					t.Fatalf("%s: inherit: %v", file, err)
				}
			}
			if _, over := h.Terminal(); over || h.Started() == nil {
				continue
			}
			if _, err := loop.Next(h); err != nil {
				t.Errorf("%s cut at %d: %v", file, cut, err)
			}
		}
	}
}

// loopOf is today's loop of a recorded run.
func loopOf(es []events.Event) loops.Loop {
	for _, e := range es {
		if p, ok := e.Data.(events.RunStarted); ok && p.Loop == revise.Name {
			return revise.New()
		}
	}
	return singleshot.New()
}

// oldLedger is a ledger that an earlier version left, migrated, for a world of today.
func oldLedger(t *testing.T, file string, schema int64) (path string, names map[string]events.RunID) {
	t.Helper()
	dump, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrations.To(t.Context(), migrations.SQLite3, db, schema); err != nil {
		t.Fatal(err)
	}
	names = map[string]events.RunID{}
	for _, line := range strings.Split(string(dump), "\n") {
		if rest, ok := strings.CutPrefix(line, "-- run "); ok {
			text, name, _ := strings.Cut(rest, " ")
			var id events.RunID
			if err := id.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			names[name] = id
		}
	}
	// The clock of this machine may be before that of the one that recorded it.
	for _, q := range []string{
		string(dump), `UPDATE runs SET lease_until = 1 WHERE lease_until IS NOT NULL`, `UPDATE runs SET due_at = 1`,
		`UPDATE runs SET wake_at = 1 WHERE wake_at IS NOT NULL`, `UPDATE effect_attempts SET deadline = 1`,
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return path, names
}

// A ledger that an earlier version left, with runs in every state, is migrated, and
// today's workers bring each run to its end.
func TestLedgerOfAnEarlierVersionGoesOn(t *testing.T) {
	for _, v := range []struct {
		name   string
		schema int64
		runs   int
	}{{"v1", 1, 12}, {"v2", 9, 23}} {
		t.Run(v.name, func(t *testing.T) {
			path, names := oldLedger(t, "testdata/"+v.name+"/ledger.sql", v.schema)
			if len(names) != v.runs {
				t.Fatalf("%d runs, want %d", len(names), v.runs)
			}
			endOldRuns(t, path, names)
		})
	}
}

// endOldRuns brings each run of an earlier version's ledger to its end.
func endOldRuns(t *testing.T, path string, names map[string]events.RunID) {
	s := &site{}
	w := worldOn(t, path, plan{}, s.tools()...)
	w.compatAgents()
	before := map[string]ledger.Run{}
	for name, id := range names {
		var err error
		if before[name], err = w.store.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	// People first: some runs wait for others.
	for name, id := range names {
		var r ledger.Run
		is := func(reason events.ParkReason) {
			w.until(fmt.Sprintf("%s waits: %s", name, reason), func() bool {
				var err error
				r, err = w.store.Run(t.Context(), id)
				return err == nil && r.State == ledger.Parked && r.ParkReason == reason
			})
		}
		switch name {
		case "running_opaque", "parked_in_doubt", "parked_shared_in_doubt", "parked_child":
			is(events.ParkInDoubt)
			if _, err := w.store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "ann"}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case "parked_approval", "parked_rule", "parked_fork":
			// Who is first does what the others of the lineage asked about, too.
			w.until(name+" is approved", func() bool {
				as, err := w.store.Approvals(t.Context(), ledger.ApprovalFilter{Run: id, Open: true})
				for _, a := range as {
					_, err = w.store.Decide(t.Context(), ledger.Decision{Approval: a.ID, Approve: true, By: "ada"})
				}
				r, rerr := w.store.Run(t.Context(), id)
				return err == nil && rerr == nil && r.State.Ended()
			})
		}
	}
	for name, id := range names {
		want := ledger.Finished
		switch name {
		case "doubt_cancelled":
			want = ledger.Cancelled
		case "model_fails":
			want = ledger.Failed
		}
		r := w.wait(id, false)
		if r.State != want || before[name].State.Ended() && r.Epoch != before[name].Epoch {
			t.Errorf("%s: %s %s, epoch %d, was %s, epoch %d\n%s", name, r.State, r.Error, r.Epoch, before[name].State, before[name].Epoch, w.story(id))
		}
	}
	if r := w.wait(names["parked_busy"], false); count[events.ToolExecutionFinished](w, r.ID) != 2 {
		t.Errorf("parked_busy: %s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	effects := 1 // of the keyed call whose outcome was lost, and no other
	if _, ok := names["parked_approval"]; ok {
		effects += 2 // what was approved
	}
	if n := s.effects(); n != effects {
		t.Errorf("%d effects, want %d", n, effects)
	}
	w.whole()
}
