package ledgertest

import (
	"errors"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// cancelUnbegun cancels a run that has not begun and records that.
func cancelUnbegun(t tb, h Harness, r ledger.Run) {
	t.Helper()
	if _, err := h.Store.Cancel(t.Context(), r.ID, "ann", "no"); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	takeFork(t, h, r).queuedIn().finish(ledger.Cancelled) // an ended run of its queue may have to be told something
}

func testSessionRetryNeverBegan(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	head := func(want events.RunID) {
		t.Helper()
		if s, err := h.Store.Session(t.Context(), "acme", "s"); err != nil || s.Head != want {
			t.Errorf("head %s, want %s, %v", s.Head, want, err)
		}
	}
	a := start(t, h, continuing("s"))
	a.openIn().refund(ledger.Applied)
	a.fail(events.StoppedByError, thrice)
	head(first.ID) // it is tried again
	cancelUnbegun(t, h, next(t, h, a.run))
	head(a.run.ID)
	b := start(t, h, continuing("s"))
	if b.run.Continues.Run != a.run.ID {
		t.Errorf("goes on from %s, want the attempt that began", b.run.Continues.Run)
	}
	// The same of a dead run that was queued again, twice.
	b.openIn().fail(events.StoppedByMaxTurns, ledger.Retry{})
	for range 2 {
		r, err := h.Store.Requeue(t.Context(), h.state(t, b.run.ID).ID, 1, "ann", "again")
		if errors.Is(err, ledger.ErrNotDead) {
			break // who was cancelled is not dead
		}
		if err != nil {
			t.Fatal(err)
		}
		head(a.run.ID)
		cancelUnbegun(t, h, r)
		head(b.run.ID)
	}
	c := start(t, h, continuing("s"))
	if c.run.Continues.Run != b.run.ID {
		t.Errorf("goes on from %s, want the attempt that began", c.run.Continues.Run)
	}
	c.openIn().finish(ledger.Finished)
	h.wantWhole(t, b.run.ID)
	h.wantWhole(t, c.run.ID)
}

func testSessionDeadCancelled(t *testing.T, h Harness) {
	a := start(t, h, continuing("s"))
	a.openIn().fail(events.StoppedByMaxTurns, ledger.Retry{})
	cancelUnbegun(t, h, submit(t, h, continuing("s")))
	waiting := submit(t, h, continuing("s"))
	r, err := h.Store.Requeue(t.Context(), a.run.ID, 1, "ann", "again")
	if err != nil || r.SessionPlace != 1 {
		t.Fatalf("queued again: place %d, %v", r.SessionPlace, err)
	}
	if tryTake(t, h, waiting) != nil {
		t.Fatal("a later run overtook the one that was queued again")
	}
	takeFork(t, h, r).openIn().finish(ledger.Finished)
	if c := take(t, h, waiting); c.run.Continues.Run != r.ID {
		t.Errorf("goes on from %s", c.run.Continues.Run)
	}
}

func testSessionKey(t *testing.T, h Harness) {
	s := submission(t)
	s.SessionID, s.Continue, s.Owner = "s", true, "ann"
	first, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	again := func(what string, s ledger.Submission) {
		t.Helper()
		if r, existed, err := h.Store.Submit(t.Context(), s); err != nil || !existed || r.ID != first.ID {
			t.Errorf("%s: run %s, existed %v, %v", what, r.ID, existed, err)
		}
	}
	moved := s
	moved.Owner = "bob"
	again("from another owner", moved)
	if _, err := h.Store.Erase(t.Context(), "acme", "ann", "dpo"); err != nil {
		t.Fatal(err)
	}
	again("after its owner was erased", s)
	other := s
	other.InputMAC = []byte("other")
	if _, _, err := h.Store.Submit(t.Context(), other); !errors.Is(err, ledger.ErrClientKeyConflict) {
		t.Errorf("another input: %v", err)
	}
	other.ClientKey += "-2"
	if _, _, err := h.Store.Submit(t.Context(), other); !errors.Is(err, ledger.ErrSessionErased) {
		t.Errorf("another key: %v", err)
	}
}
