package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var watchdogTests = []conformance{
	{"a run that somebody or something will move is not stuck", testNotStuck},
	{"what stands still is named, with since when", testStuck},
	{"the oldest come first, however many there are", testStuckOldest},
	{"a run that cannot be read is tried later and later, and says so", testUnreadable},
	{"maintenance can be done at any time", testMaintain},
	{"what waits is counted, and since when", testVitals},
	{"an approval that cannot be given any more does not wait", testVitalApprovals},
}

const patience = time.Minute

func (h Harness) stuck(t tb, limit int) []ledger.Stuck {
	t.Helper()
	list, err := h.Store.Stuck(t.Context(), ledger.StuckFilter{Patience: patience, FactAge: 2 * patience, Limit: limit})
	if err != nil {
		t.Fatalf("stuck: %v", err)
	}
	return list
}

func testNotStuck(t *testing.T, h Harness) {
	submit(t, h) // queued
	timer := start(t, h)
	timer.opening()
	timer.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Hour})
	capable := start(t, h)
	capable.opening()
	capable.parkOn(ledger.Parking{Reason: events.ParkNoCapableWorker})
	doubt, v := doubtful(t, h)
	if err := doubt.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	done := start(t, h)
	done.opening()
	done.finish(ledger.Finished)
	cancelled := submit(t, h)
	if _, err := h.Store.Cancel(t.Context(), cancelled.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	h.Advance(patience / 2)
	live := start(t, h)
	live.opening()
	h.sql(t, `DELETE FROM facts`) // of the cancelled one: nobody looks at it in this test
	h.Advance(patience/2 + leaseTTL)
	live.beat(live.lease)
	if list := h.stuck(t, 0); len(list) > 0 {
		t.Errorf("stuck: %+v", list)
	}
}

// riverqueue/river#1258, dbos-inc/dbos-transact-py#805
func testStuck(t *testing.T, h Harness) {
	want := map[events.RunID]ledger.StuckKind{}
	lapsed := start(t, h)
	want[lapsed.run.ID] = ledger.StuckLease
	leaseless := start(t, h)
	h.sql(t, `UPDATE runs SET lease_until = NULL WHERE id = $1`, leaseless.run.ID)
	want[leaseless.run.ID] = ledger.StuckLeaseless
	decided, v := doubtful(t, h)
	if err := decided.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	h.sql(t, `UPDATE effects SET state = 'abandoned', settled_at = created_at WHERE op_key = $1`, v.Ref.OpKey) // and nobody is told
	want[decided.run.ID] = ledger.StuckWaiting
	strange := start(t, h)
	strange.opening()
	strange.parkOn(ledger.Parking{Reason: "the_moon"})
	want[strange.run.ID] = ledger.StuckWaiting
	child := start(t, h)
	child.opening()
	child.parkOn(ledger.Parking{Reason: events.ParkChild})
	want[child.run.ID] = ledger.StuckWaiting
	asleep := start(t, h)
	asleep.opening()
	asleep.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Second})
	want[asleep.run.ID] = ledger.StuckWake
	ended := start(t, h)
	ended.opening()
	ended.finish(ledger.Finished)
	h.sql(t, `DELETE FROM events WHERE run_id = $1 AND type = 'run_finished'`, ended.run.ID)
	want[ended.run.ID] = ledger.StuckEnd
	untold := submit(t, h)
	if _, err := h.Store.Cancel(t.Context(), untold.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	want[untold.ID] = ledger.StuckFacts
	if list := h.stuck(t, 0); len(list) > 1 || len(list) == 1 && list[0].Kind != ledger.StuckLeaseless {
		t.Errorf("too early: %+v", list)
	}
	h.Advance(3 * patience)
	got := map[events.RunID]ledger.StuckKind{}
	for _, s := range h.stuck(t, 0) {
		got[s.Run] = s.Kind
		if s.Text == "" || s.Since.IsZero() || s.Queue == "" || s.Tenant == "" {
			t.Errorf("says too little: %+v", s)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// A person holds it back: that is a reason.
	h.sql(t, `UPDATE runs SET held_at = created_at, held_by = 'ann'`)
	for _, s := range h.stuck(t, 0) {
		if s.Kind != ledger.StuckFacts && s.Kind != ledger.StuckEnd {
			t.Errorf("held, and stuck all the same: %+v", s)
		}
	}
}

func testStuckOldest(t *testing.T, h Harness) {
	var first events.RunID
	for i := range 12 {
		a := start(t, h)
		if i == 0 {
			first = a.run.ID
		}
		h.Advance(time.Second)
	}
	h.Advance(time.Hour)
	list := h.stuck(t, 5)
	if len(list) != 5 || list[0].Run != first {
		t.Fatalf("%d runs, the first is %s, want 5 and %s", len(list), list[0].Run, first)
	}
	for i, s := range list[1:] {
		if s.Since.Before(list[i].Since) {
			t.Errorf("%s comes after %s", s.Since, list[i].Since)
		}
	}
}

func testUnreadable(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	if err := h.Store.MarkUnreadable(t.Context(), a.lease, "event type \x00of the future"); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.MarkUnreadable(t.Context(), a.lease, "again"); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("without a lease: %v, want %v", err, ledger.ErrFenced)
	}
	if list := h.stuck(t, 0); len(list) != 1 || list[0].Kind != ledger.StuckUnreadable {
		t.Errorf("stuck: %+v", list)
	}
	for i, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		h.Advance(wait - time.Second)
		if tryTake(t, h, a.run) != nil {
			t.Fatalf("try %d: claimed before %s are over", i, wait)
		}
		h.Advance(2 * time.Second)
		b := tryTake(t, h, a.run)
		if b == nil || b.run.Unreadable == "" {
			t.Fatalf("try %d: not claimed after %s, or it does not say why", i, wait)
		}
		a = b
		if i == 2 {
			break
		}
		if err := h.Store.MarkUnreadable(t.Context(), a.lease, "still"); err != nil {
			t.Fatal(err)
		}
	}
	// This build can read it.
	if err := h.Store.MarkUnreadable(t.Context(), a.lease, ""); err != nil {
		t.Fatal(err)
	}
	if r := h.state(t, a.run.ID); r.Unreadable != "" {
		t.Errorf("unreadable: %q", r.Unreadable)
	}
	if list := h.stuck(t, 0); len(list) != 0 {
		t.Errorf("stuck: %+v", list)
	}
	a.note(events.RunResumed{Worker: a.worker, Epoch: a.lease.Epoch, BaseSeq: a.seq, BaseHash: a.prev})
	a.finish(ledger.Finished)
}

func testMaintain(t *testing.T, h Harness) {
	h.sql(t, `INSERT INTO journal_positions (reader, incarnation, sequence, at) VALUES ('old', 'i', 3, $1), ('top', 'i', 7, $1), ('new', 'i', 5, $2)`,
		time.Now().Add(-1000*time.Hour), time.Now())
	for range 2 {
		if _, err := h.Store.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.count(t, `SELECT count(*) FROM journal_positions WHERE reader IN ('top', 'new')`); n != 2 {
		t.Errorf("%d of the positions that count are left, want 2", n)
	}
	if n := h.count(t, `SELECT count(*) FROM journal_positions`); n != 2 {
		t.Errorf("%d positions, want 2", n)
	}
}

func testVitals(t *testing.T, h Harness) {
	vitals := func() ledger.Vitals {
		t.Helper()
		v, err := h.Store.Vitals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := vitals()
	if before.InDoubt.Count != 0 || !before.InDoubt.Since.IsZero() || before.Facts.Count != 0 || before.Unfolded.Count != 0 || before.Approvals.Count != 0 || before.Quarantined != 0 {
		t.Errorf("an empty ledger: %+v", before)
	}
	doubt, v := doubtful(t, h)
	if err := doubt.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	h.Advance(time.Minute)
	cancelled := submit(t, h)
	if _, err := h.Store.Cancel(t.Context(), cancelled.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	got := vitals()
	if got.InDoubt.Count != 1 || got.Now.Sub(got.InDoubt.Since) < time.Minute {
		t.Errorf("in doubt: %+v at %s", got.InDoubt, got.Now)
	}
	if got.Facts.Count == 0 || got.Facts.Since.IsZero() || got.Now.Sub(got.Facts.Since) > time.Minute {
		t.Errorf("facts: %+v at %s", got.Facts, got.Now)
	}
	if got.Unfolded.Count == 0 || got.Unfolded.Since.IsZero() {
		t.Errorf("unfolded: %+v, want what the barriers inserted", got.Unfolded)
	}
	if _, err := h.Store.FoldBehind(t.Context(), 0, 100); err != nil {
		t.Fatal(err)
	}
	if after := vitals(); after.Unfolded.Count != 0 || after.Unfed != got.Unfolded.Count+got.Unfed {
		t.Errorf("folded: %+v, before %+v", after, got)
	}
}

// An approval that nobody can give any more, of a run that has ended or past its time,
// does not wait: the alert for those that do would fire for good.
func testVitalApprovals(t *testing.T, h Harness) {
	want := func(when string, n int64, since time.Time) {
		t.Helper()
		v, err := h.Store.Vitals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b := v.Approvals; b.Count != n || !b.Since.Equal(since) {
			t.Errorf("%s: %+v, want %d since %s", when, b, n, since)
		}
		open, err := h.Store.Approvals(t.Context(), ledger.ApprovalFilter{Open: true})
		if err != nil || int64(len(open)) != n {
			t.Errorf("%s: %d in the list, %v", when, len(open), err)
		}
	}
	ended := start(t, h)
	first := approvalOf(t, h, ended.asked(refund(ask)).Approval)
	h.Advance(time.Second)
	short := start(t, h)
	second := approvalOf(t, h, short.asked(refund(ask, lasting(time.Minute))).Approval)
	want("two are asked for", 2, first.CreatedAt)
	if _, err := h.Store.Cancel(t.Context(), ended.run.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	want("the run of one is being cancelled", 2, first.CreatedAt)
	ended.endAs(ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
	want("it has ended", 1, second.CreatedAt)
	h.Advance(time.Minute)
	want("the other is past its time", 0, time.Time{})
}
