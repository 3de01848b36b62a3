package ledgertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var verifyTests = []conformance{
	{"a whole ledger has no fault", testVerifyWhole},
	{"a live run may lag and have facts pending", testVerifyLive},
	{"a run that nobody knows is not found", testVerifyUnknown},
	{"what only a checkpoint could find", testVerifyLimits},
	{"finds what was tampered with", testTampers},
}

// record is a ledger with something of everything: an ended run over two
// epochs, with an effect that a takeover put in doubt and a person resolved, an
// event set aside and a late answer; and a live run beside it.
type record struct {
	h     Harness
	run   events.RunID
	live  events.RunID
	other events.RunID // a run that does not exist
	n     uint64       // events of run
}

func newRecord(t tb, h Harness) record {
	t.Helper()
	a := start(t, h, ownedBy("ann"))
	a.opening()
	a.turn(1, 3)
	v := a.want(ledger.Execute, refund())
	a.flush()
	a.note(events.ModelCallStarted{Turn: 1, Attempt: 9, Model: "m"})
	a.note(events.ModelCallFinished{Turn: 1, Attempt: 9, Model: "m", ServedModel: "m", Usage: events.Usage{Input: 1}})
	late := a.sent()

	b := takeover(t, h, a.run)
	b.flush()
	h.project(t, late...)
	h.Advance(callTimeout * 10)
	b.lease = b.beaten(t)
	if _, err := h.Store.Resolve(t.Context(), ledger.Resolution{OpKey: v.Ref.OpKey, State: events.EffectApplied, By: "ann"}); err != nil {
		t.Fatalf("resolve: %v", err)
	}
	b.flush()
	b.note(events.ArtifactValidationFinished{Turn: 1, Artifact: "report", Validator: "v", Content: events.Hash{2}, Bytes: 2, Issues: []events.ArtifactIssue{{Path: "/a", Message: "is missing"}}})
	b.note(events.ArtifactValidationFinished{Turn: 2, Artifact: "report", Revision: 1, OK: true, Content: events.Hash{1}, Bytes: 3})
	b.note(events.ArtifactFinished{Name: "report", Revision: 1, Content: events.Hash{1}, Bytes: 3})
	b.finish(ledger.Finished)
	n := uint64(h.archived(t, a.run.ID)) //nolint:gosec // a count

	c := start(t, h)
	c.opening()
	c.turn(1, 2)
	c.openCall(1, 2, "search")
	h.project(t, c.sent()...)
	for {
		folded, err := h.Store.FoldBehind(t.Context(), 0, 100)
		if err != nil {
			t.Fatalf("fold: %v", err)
		}
		if folded == 0 {
			break
		}
	}
	return record{h, a.run.ID, c.run.ID, testIDs.Run(), n}
}

// beaten extends the lease.
func (a *actor) beaten(t tb) ledger.Lease {
	t.Helper()
	bs, err := a.h.Store.Heartbeat(t.Context(), a.worker, []ledger.Lease{a.lease})
	if err != nil || len(bs) != 1 || !bs[0].Held {
		t.Fatalf("heartbeat: %+v, %v", bs, err)
	}
	return a.lease
}

func testVerifyWhole(t *testing.T, h Harness) {
	r := newRecord(t, h)
	h.wantWhole(t, r.run)
	h.wantWhole(t, r.live)
	report, err := h.Store.Verify(t.Context(), events.RunID{}, func(f ledger.Finding) error {
		if f.Kind != ledger.Note {
			t.Errorf("%s: run %s seq %d: %s", f.Kind, f.Run, f.Seq, f.Text)
		}
		return nil
	})
	want := ledger.VerifyReport{Runs: 2, Events: int64(h.count(t, `SELECT count(*) FROM events`)), SetAside: 2}
	if report != want || err != nil {
		t.Errorf("report %+v, %v; want %+v", report, err, want)
	}
	if err := h.Store.Rebuild(t.Context(), events.RunID{}); err != nil {
		t.Fatal(err)
	}
	h.wantWhole(t, r.run)
}

func testVerifyLive(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush() // in the archive, not folded
	if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	var notes int
	report, err := h.Store.Verify(t.Context(), a.run.ID, func(f ledger.Finding) error {
		notes++
		if f.Kind != ledger.Note {
			t.Errorf("%s: %s", f.Kind, f.Text)
		}
		return nil
	})
	if err != nil || report.Pending != 1 || notes != 2 {
		t.Errorf("report %+v, %d notes, %v", report, notes, err)
	}
	boom := errors.New("boom")
	if _, err := h.Store.Verify(t.Context(), a.run.ID, func(ledger.Finding) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("error of the reader: %v", err)
	}
}

func testVerifyUnknown(t *testing.T, h Harness) {
	if _, err := h.Store.Verify(t.Context(), testIDs.Run(), func(ledger.Finding) error { return nil }); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// testVerifyLimits pins what verification without checkpoints cannot find, so
// that nobody believes that it can.
func testVerifyLimits(t *testing.T, h Harness) {
	r := newRecord(t, h)
	// The tail of a live run, together with all that was made from it.
	for _, table := range []string{"events", "tool_call_records", "model_calls"} {
		h.sql(t, `DELETE FROM `+table+` WHERE run_id = $1 AND seq > 2`, r.live)
	}
	h.sql(t, `UPDATE run_folds SET top_seq = 2, folded_seq = 2 WHERE run_id = $1`, r.live)
	if err := h.Store.Rebuild(t.Context(), r.live); err != nil {
		t.Fatal(err)
	}
	h.wantWhole(t, r.live)
	// A history written anew from end to end, with all that was made from it.
	h.rehash(t, r.run, 4, []byte("found & kept"), []byte("lost & found"))
	if fs := h.verify(t, r.run); !hasFinding(fs, ledger.Tampered, 8, "Result is") {
		t.Errorf("with the rows as they were: %v", fs)
	}
	if err := h.Store.Rebuild(t.Context(), r.run); err != nil {
		t.Fatal(err)
	}
	h.wantWhole(t, r.run)
	// A run that is gone from every table.
	h.sql(t, `DELETE FROM run_folds WHERE run_id = $1`, r.live)
	for _, table := range []string{"events", "tool_call_records", "model_calls", "run_summaries", "run_epochs"} {
		h.sql(t, `DELETE FROM `+table+` WHERE run_id = $1`, r.live)
	}
	h.sql(t, `DELETE FROM runs WHERE id = $1`, r.live)
	_, err := h.Store.Verify(t.Context(), events.RunID{}, func(f ledger.Finding) error {
		if f.Run == r.live {
			t.Errorf("of a run that is gone: %+v", f)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// stored is an event as it stands in the table.
type stored struct {
	seq   uint64
	hash  events.Hash
	bytes []byte
}

func (h Harness) stored(t tb, run events.RunID) (list []stored) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT seq, hash, bytes FROM events WHERE run_id = $1 ORDER BY seq`, run)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s stored
			if err := rows.Scan(&s.seq, &s.hash, &s.bytes); err != nil {
				return err
			}
			list = append(list, s)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("read events: %v", err)
	}
	return list
}

// rehash replaces old by new in the bytes of a run's events from seq on and
// writes the chain anew behind it, in every place that names a hash of it.
func (h Harness) rehash(t tb, run events.RunID, from uint64, old, replaced []byte) {
	t.Helper()
	names := map[string]string{}
	for _, s := range h.stored(t, run) {
		if s.seq < from {
			continue
		}
		b := bytes.ReplaceAll(s.bytes, old, replaced)
		for was, is := range names {
			b = bytes.ReplaceAll(b, []byte(was), []byte(is))
		}
		is := events.Hash(sha256.Sum256(b))
		names[s.hash.String()] = is.String()
		e, err := events.Parse(b, is)
		if err != nil {
			t.Fatalf("rehash: %v", err)
		}
		h.sql(t, `UPDATE events SET bytes = $3, hash = $4, prev = $5 WHERE run_id = $1 AND seq = $2`, run, s.seq, b, is, e.Envelope().Prev)
		h.sql(t, `UPDATE run_epochs SET base_hash = $3 WHERE run_id = $1 AND base_hash = $2`, run, s.hash, is)
	}
}
