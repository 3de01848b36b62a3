package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var pauseTests = []conformance{
	{"a paused run is not claimed until it is resumed", testPauseQueued},
	{"a paused run that waits is not woken", testPauseParked},
	{"the holder of a run learns that it is paused", testPauseRunning},
	{"a run does not park as paused that is not any more", testParkResumed},
	{"a paused run is cancelled", testPauseCancelled},
	{"pausing and resuming twice, or what has ended", testPauseRefused},
	{"a run that kills its workers is held back", testCrashing},
	{"an outcome ends a row of crashes", testCrashesForgotten},
	{"an outcome that nobody numbered ends a row of crashes once", testCrashesUnnumbered},
}

func (h Harness) pause(t tb, id events.RunID) {
	t.Helper()
	if _, done, err := h.Store.Pause(t.Context(), id, "ann", "look first"); err != nil || !done {
		t.Fatalf("pause: %v %v", done, err)
	}
}

func (h Harness) resume(t tb, id events.RunID) {
	t.Helper()
	if _, err := h.Store.Resume(t.Context(), id, "bob", "looked"); err != nil {
		t.Fatalf("resume: %v", err)
	}
}

// gagan114662/openbot#73: every verb of an operator is an event.
func testPauseQueued(t *testing.T, h Harness) {
	r := submit(t, h)
	h.pause(t, r.ID)
	if got := h.state(t, r.ID); got.State != ledger.Queued || got.HeldBy != "ann" || got.HeldReason != "look first" || got.HeldAt.IsZero() {
		t.Errorf("run %+v", got)
	}
	h.Advance(time.Hour)
	if tryTake(t, h, r) != nil {
		t.Fatal("a paused run was claimed")
	}
	h.resume(t, r.ID)
	a := take(t, h, r)
	if d := cmp.Diff([]events.Type{"operator_acted", "operator_acted"}, types(a.facts)); d != "" {
		t.Fatal(d)
	}
	want := []events.OperatorActed{{Verb: "pause", By: "ann", Detail: "look first"}, {Verb: "resume", By: "bob", Detail: "looked"}}
	got := []events.OperatorActed{payload[events.OperatorActed](t, &a.facts[0]), payload[events.OperatorActed](t, &a.facts[1])}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func testPauseParked(t *testing.T, h Harness) {
	a := start(t, h)
	a.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Minute})
	h.pause(t, a.run.ID)
	h.signal(t, a.run.ID, "come on")
	h.Advance(time.Hour)
	if tryTake(t, h, a.run) != nil {
		t.Fatal("a paused run was woken")
	}
	h.resume(t, a.run.ID)
	if b := take(t, h, a.run); len(b.facts) != 4 { // pause, signal, resume, timer
		t.Errorf("facts %v", types(b.facts))
	}
}

func testPauseRunning(t *testing.T, h Harness) {
	a := start(t, h)
	if b := a.beat()[0]; b.Paused {
		t.Fatalf("beat %+v", b)
	}
	h.pause(t, a.run.ID)
	b := a.beat()[0]
	if !b.Held || !b.Paused || b.PausedBy != "ann" || b.PausedReason != "look first" || len(b.Facts) != 1 {
		t.Fatalf("beat %+v", b)
	}
	a.absorb(b.Facts...)
	a.parkOn(ledger.Parking{Reason: events.ParkPaused, Held: true})
	if tryTake(t, h, a.run) != nil {
		t.Fatal("claimed while paused")
	}
	h.resume(t, a.run.ID)
	take(t, h, a.run)

	// If its holder is gone, another one may take it, to park it.
	c := start(t, h)
	h.pause(t, c.run.ID)
	c.crash()
	if d := c.successor(); d.run.HeldAt.IsZero() {
		t.Errorf("run %+v", d.run)
	}
}

func testParkResumed(t *testing.T, h Harness) {
	a := start(t, h)
	h.pause(t, a.run.ID)
	h.resume(t, a.run.ID)
	a.absorb(a.pending()...)
	err := h.Store.Park(t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkPaused, Held: true})
	if !errors.Is(err, ledger.ErrFactsPending) {
		t.Errorf("park: %v; nobody would wake it", err)
	}
}

func testPauseCancelled(t *testing.T, h Harness) {
	r := submit(t, h)
	h.pause(t, r.ID)
	if _, err := h.Store.Cancel(t.Context(), r.ID, "ann", "no"); err != nil {
		t.Fatal(err)
	}
	if a := take(t, h, r); a.run.State != ledger.Cancelling || !a.run.HeldAt.IsZero() {
		t.Errorf("run %+v", a.run)
	}
	if _, _, err := h.Store.Pause(t.Context(), r.ID, "ann", "x"); !errors.Is(err, ledger.ErrCancelling) {
		t.Errorf("pause of a cancelling run: %v", err)
	}
}

// hatchet-dev/hatchet#2573: what an operator asks is a compare-and-set that
// says why it is refused.
func testPauseRefused(t *testing.T, h Harness) {
	a := start(t, h)
	if _, err := h.Store.Resume(t.Context(), a.run.ID, "ann", "x"); !errors.Is(err, ledger.ErrNotPaused) {
		t.Errorf("resume: %v", err)
	}
	h.pause(t, a.run.ID)
	r, done, err := h.Store.Pause(t.Context(), a.run.ID, "bob", "me too")
	if err != nil || done || r.HeldBy != "ann" {
		t.Errorf("second pause: %+v %v %v; the first stands", r, done, err)
	}
	if n := len(a.pending()); n != 1 {
		t.Errorf("%d facts, want the one of the first pause", n)
	}
	a.absorb(a.pending()...)
	a.finish(ledger.Finished) // the act in hand was the last
	if r := h.state(t, a.run.ID); !r.HeldAt.IsZero() {
		t.Errorf("an ended run is held: %+v", r)
	}
	if _, _, err := h.Store.Pause(t.Context(), a.run.ID, "ann", "x"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("pause of an ended run: %v", err)
	}
	if _, err := h.Store.Resume(t.Context(), a.run.ID, "ann", "x"); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("resume of an ended run: %v", err)
	}
	if _, _, err := h.Store.Pause(t.Context(), testIDs.Run(), "ann", "x"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("pause of an unknown run: %v", err)
	}
}

// dies lets a worker take a run, record that it did, and die; the journal
// brings what it recorded.
func dies(t *testing.T, h Harness, r ledger.Run, also ...events.Payload) {
	t.Helper()
	a := tryTake(t, h, r)
	if a == nil {
		t.Fatal("not claimed")
	}
	a.absorb(a.facts...)
	for _, p := range append([]events.Payload{events.RunResumed{Worker: a.worker, Epoch: a.lease.Epoch}}, also...) {
		a.note(p)
	}
	h.arrive(t, a.prefix...)
	a.crash()
}

func testCrashing(t *testing.T, h Harness) {
	r := submit(t, h)
	for range 11 {
		dies(t, h, r, events.ModelCallStarted{Turn: 1, Attempt: 1})
	}
	if a := tryTake(t, h, r); a != nil {
		t.Fatalf("claimed for the 12th time: epoch %d", a.lease.Epoch)
	}
	got := h.state(t, r.ID)
	if got.State != ledger.Parked || got.ParkReason != events.ParkPaused || got.HeldBy != "daybook" || got.HeldAt.IsZero() || !got.LeaseUntil.IsZero() {
		t.Errorf("run %+v", got)
	}
	if tryTake(t, h, r) != nil {
		t.Error("a run that was held back is claimed")
	}
	h.resume(t, r.ID)
	a := tryTake(t, h, r)
	if a == nil || a.lease.Epoch != 12 || len(a.facts) != 2 {
		t.Fatalf("after the resume: %+v", a)
	}
	if n := h.archived(t, r.ID); n != 22 || a.seq != 22 {
		t.Errorf("%d events, base %d: the tail of the last worker counts", n, a.seq)
	}
}

func testCrashesForgotten(t *testing.T, h Harness) {
	r := submit(t, h)
	for i := range 24 {
		var also []events.Payload
		if i%8 == 7 {
			also = append(also, events.ModelCallFinished{Turn: 1, Attempt: 1})
		}
		dies(t, h, r, also...)
	}
	if tryTake(t, h, r) == nil {
		t.Error("held back although it got on")
	}
}

// testCrashesUnnumbered: a call ends, and no holder lives long enough to number
// that. Found by workers whose leases lapsed under load: a run that got on was
// held back as one that kills its workers.
func testCrashesUnnumbered(t *testing.T, h Harness) {
	r := submit(t, h)
	a := take(t, h, r)
	begun := a.want(ledger.Execute, refund(recovery(ledger.RecoveryKeyed)))
	dieUnread := func(n int) {
		t.Helper()
		for i := range n {
			b := tryTake(t, h, r)
			if b == nil {
				t.Fatalf("held back at the claim %d of %d", i+1, n)
			}
			b.crash()
		}
	}
	a.crash()
	dieUnread(8)
	a.end(begun.Ref.Token, ledger.Applied)
	dieUnread(11) // it counts at the first of them, and then no more
	if b := tryTake(t, h, r); b != nil {
		t.Fatalf("claimed again: epoch %d", b.lease.Epoch)
	}
	if got := h.state(t, r.ID); got.HeldBy != "daybook" {
		t.Errorf("run %+v", got)
	}
}
