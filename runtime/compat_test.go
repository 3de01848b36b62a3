package runtime_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
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
		ds, err := loops.Rehearse(loops.NewHistory(es[0].RunID), es, singleshot.New())
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
			if _, err := singleshot.New().Next(h); err != nil {
				t.Errorf("%s cut at %d: %v", file, cut, err)
			}
		}
	}
}

// A ledger that the version before 00002 left, with runs in every state, is
// migrated, and today's workers bring each run to its end.
func TestLedgerOfAnEarlierVersionGoesOn(t *testing.T) {
	dump, err := os.ReadFile("testdata/v1/ledger.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.To(t.Context(), migrations.SQLite3, db, 1); err != nil {
		t.Fatal(err)
	}
	names := map[string]events.RunID{}
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
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := &site{}
	w := worldOn(t, path, plan{}, s.tools()...)
	before := map[string]ledger.Run{}
	for name, id := range names {
		if before[name], err = w.store.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	for name, state := range map[string]ledger.State{
		"pays": ledger.Finished, "shared_first": ledger.Finished, "goes_on_in_doubt": ledger.Finished,
		"doubt_cancelled": ledger.Cancelled, "model_fails": ledger.Failed, "queued": ledger.Finished,
		"running_look": ledger.Finished, "running_keyed": ledger.Finished,
		"running_opaque": ledger.Finished, "parked_in_doubt": ledger.Finished, "parked_shared_in_doubt": ledger.Finished, "parked_busy": ledger.Finished,
	} {
		id := names[name]
		if name == "running_opaque" || name == "parked_in_doubt" || name == "parked_shared_in_doubt" {
			var r ledger.Run
			w.until(name+" is in doubt", func() bool {
				r, err = w.store.Run(t.Context(), id)
				return err == nil && r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt
			})
			if _, err := w.store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "ann"}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if name == "parked_busy" {
			continue // it waits for parked_shared_in_doubt
		}
		r := w.wait(id, false)
		if r.State != state || before[name].State.Ended() && r.Epoch != before[name].Epoch {
			t.Errorf("%s: %s %s, epoch %d, was %s, epoch %d\n%s", name, r.State, r.Error, r.Epoch, before[name].State, before[name].Epoch, w.story(id))
		}
	}
	if r := w.wait(names["parked_busy"], false); r.State != ledger.Finished || count[events.ToolExecutionFinished](w, r.ID) != 2 {
		t.Errorf("parked_busy: %s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	if n := s.effects(); n != 1 {
		t.Errorf("%d effects, want that of the keyed call whose outcome was lost and no other", n)
	}
	w.whole()
}
