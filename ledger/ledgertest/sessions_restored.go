package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// restoredPair is a session of two runs in a database that was restored from a backup of
// when the first was running and the second waited: the journal says that the first has
// finished and the second has begun.
func restoredPair(t *testing.T, h Harness) (first, second ledger.Run) {
	t.Helper()
	b := newBook(t, h)
	a := start(t, h, continuing("s"))
	a.openIn().flush()
	behind := submit(t, h, continuing("s"))
	b.publish(a)
	b.project()
	old := h.backup(t)
	a.finish(ledger.Finished)
	c := take(t, h, behind)
	if c.run.Continues.Run != a.run.ID {
		t.Fatalf("goes on from %s", c.run.Continues.Run)
	}
	c.openIn().flush()
	b.publish(a, c)
	b.project()
	old.restore(t)
	h.Advance(2 * time.Second)
	if s, err := h.Store.Session(t.Context(), "acme", "s"); err != nil || !s.Head.IsZero() || h.state(t, behind.ID).BehindAt.IsZero() {
		t.Fatalf("the backup has %+v, %v", s, err)
	}
	if err := h.other().CompareJournal(t.Context(), b.position()); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatal(err)
	}
	if r := b.reconcile(false); r.Events == 0 || r.Raised != 2 {
		t.Fatalf("reconciled: %+v", r)
	}
	h.Advance(2 * time.Second)
	return a.run, c.run
}

func testSessionRestored(t *testing.T, h Harness) {
	first, second := restoredPair(t, h)
	third := submit(t, h, continuing("s"))
	if tryTake(t, h, third) != nil {
		t.Fatal("a new run overtook those of before")
	}
	// The second is taken first, and ends first.
	b := takeover(t, h, second)
	if b.run.Continues != second.Continues || h.state(t, second.ID).Continues != second.Continues {
		t.Errorf("goes on from %+v, its record says %+v", b.run.Continues, second.Continues)
	}
	b.finish(ledger.Finished)
	a := takeover(t, h, first)
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish}); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Store.Session(t.Context(), "acme", "s"); err != nil || s.Head != second.ID {
		t.Errorf("head %s, want %s, %v", s.Head, second.ID, err)
	}
	c := take(t, h, third)
	if c.run.Continues.Run != second.ID {
		t.Errorf("goes on from %s, want %s", c.run.Continues.Run, second.ID)
	}
	c.openIn().finish(ledger.Finished)
	h.foldAll(t)
	h.wantWhole(t, events.RunID{})
}

func testSessionRestoredCancelled(t *testing.T, h Harness) {
	_, second := restoredPair(t, h)
	if _, err := h.Store.Cancel(t.Context(), second.ID, "ann", "no"); err != nil {
		t.Fatal(err)
	}
	b := takeover(t, h, second)
	if b.run.Continues != second.Continues {
		t.Errorf("goes on from %+v, its record says %+v", b.run.Continues, second.Continues)
	}
	b.finish(ledger.Cancelled)
	h.foldAll(t)
	h.wantWhole(t, second.ID)
}
