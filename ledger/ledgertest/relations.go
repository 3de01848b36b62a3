package ledgertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var relationTests = []conformance{
	{"children and forks of a run are listed, oldest first", testDescendants},
	{"whoever holds a place of a queue is named, as its limits count", testHolders},
	{"a rate says how much of it is used and when the next may start", testRateUsed},
	{"whom the database has authenticated is known", testRole},
	{"what a person did to the ledger is kept", testLedgerAct},
	{"a fork that is queued again stays the fork it was", testRequeueFork},
	{"a fork that an error stopped is tried again as the same fork", testRetryFork},
}

func idsOf(rs []ledger.Run) []events.RunID {
	out := make([]events.RunID, len(rs))
	for i, r := range rs {
		out[i] = r.ID
	}
	return out
}

func testDescendants(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	child := a.mustSpawn(0)
	fork := forkOf(t, h, a.run.ID, 1)
	start(t, h) // a stranger
	got, err := h.Store.Descendants(t.Context(), a.run.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]events.RunID{child.ID, fork.ID}, idsOf(got)); d != "" {
		t.Error(d)
	}
	if got, err = h.Store.Descendants(t.Context(), a.run.ID, 1); err != nil || len(got) != 1 || got[0].Parent != a.run.ID {
		t.Errorf("limit 1: %v, %v", idsOf(got), err)
	}
	if got, err = h.Store.Descendants(t.Context(), child.ID, 0); err != nil || len(got) != 0 {
		t.Errorf("of the child: %v, %v", idsOf(got), err)
	}
}

func testHolders(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 3)
	var want []events.RunID
	for range 2 {
		want = append(want, claimIn(t, h, "q", 1)[0].Run.ID)
		h.Advance(time.Second)
	}
	holders := func() []events.RunID {
		t.Helper()
		rs, err := h.Store.Holders(t.Context(), "q", 0)
		if err != nil {
			t.Fatal(err)
		}
		return idsOf(rs)
	}
	if d := cmp.Diff(want, holders()); d != "" {
		t.Error(d)
	}
	if rs, err := h.Store.Holders(t.Context(), "other", 0); err != nil || len(rs) != 0 {
		t.Errorf("of another queue: %v, %v", idsOf(rs), err)
	}
	h.Advance(45 * time.Second) // the leases are over, but not for long
	if d := cmp.Diff(want, holders()); d != "" {
		t.Error(d)
	}
	h.Advance(5 * time.Minute)
	if got := holders(); len(got) != 0 {
		t.Errorf("%v hold places that the limits do not count", got)
	}
}

func testRateUsed(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 5)
	h.limit(t, "q", ledger.QueueLimit{Rate: 2, Per: time.Minute})
	stats := func() ledger.QueueStats {
		t.Helper()
		s, err := h.Store.QueueStats(t.Context(), "q")
		if err != nil || len(s) != 1 {
			t.Fatalf("%v, %v", s, err)
		}
		return s[0]
	}
	first := claimIn(t, h, "q", 1)[0]
	if s := stats(); s.Started != 1 || !s.NextStart.IsZero() {
		t.Errorf("one start of two: %d, next %s", s.Started, s.NextStart)
	}
	h.Advance(5 * time.Second)
	claimIn(t, h, "q", 1)
	if s := stats(); s.Started != 2 || s.NextStart.Sub(first.Run.StartedAt).Round(time.Second) != time.Minute {
		t.Errorf("used up: %d, the next may start %s after the first", s.Started, s.NextStart.Sub(first.Run.StartedAt))
	}
	h.Advance(56 * time.Second)
	if s := stats(); s.Started != 1 || !s.NextStart.IsZero() {
		t.Errorf("a minute on: %d, next %s", s.Started, s.NextStart)
	}
}

// asFork is what makes a run the fork that it is.
func asFork(r ledger.Run) string {
	return fmt.Sprintf("of %s up to %d, effects %s, root %s, told %s", r.ForkOf, r.ForkSeq, r.ForkEffects, r.Root, r.Input)
}

// failedFork is a fork that asks, with a note, which an error has stopped.
func failedFork(t *testing.T, h Harness, retry ledger.Retry) ledger.Run {
	t.Helper()
	a := start(t, h)
	a.opening()
	a.flush()
	fork, _, err := h.Store.Fork(t.Context(), ledger.ForkRequest{Run: a.run.ID, Seq: 2, Effects: ledger.ForkAsk, By: "ann", Note: mustSeal(t, "in French")})
	if err != nil {
		t.Fatal(err)
	}
	b := takeFork(t, h, fork)
	b.openingOfFork(events.Hash{1})
	b.fail(events.StoppedByError, retry)
	return h.state(t, fork.ID)
}

func testRequeueFork(t *testing.T, h Harness) {
	fork := failedFork(t, h, ledger.Retry{})
	if fork.DeadAt.IsZero() {
		t.Fatalf("fork %+v is not dead", fork)
	}
	next, err := h.Store.Requeue(t.Context(), fork.ID, 1, "ann", "again")
	if err != nil {
		t.Fatal(err)
	}
	if asFork(next) != asFork(fork) || next.RetryOf != fork.ID || next.Attempt != 2 {
		t.Errorf("requeued %s (attempt %d), want %s", asFork(next), next.Attempt, asFork(fork))
	}
}

func testRetryFork(t *testing.T, h Harness) {
	fork := failedFork(t, h, thrice)
	if got := next(t, h, fork); asFork(got) != asFork(fork) || got.RetryOf != fork.ID {
		t.Errorf("tried again %s, want %s", asFork(got), asFork(fork))
	}
}

func testRole(t *testing.T, h Harness) {
	want := ""
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) (err error) {
		if r, ok := tx.(interface {
			Role(context.Context) (string, error)
		}); ok {
			want, err = r.Role(ctx)
			if want == "" {
				t.Error("a database with roles names none")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Store.Role(t.Context()); err != nil || got != want {
		t.Errorf("role %q, %v, want %q", got, err, want)
	}
}

func testLedgerAct(t *testing.T, h Harness) {
	act := ledger.Act{Kind: "ledger", Name: "journal", Verb: "reconcile", By: "ann", Detail: "2 events"}
	for _, bad := range []ledger.Act{{Kind: "queue", Verb: "x", By: "ann"}, {Kind: "ledger", Verb: "x"}} {
		if err := h.Store.KeepAct(t.Context(), bad); err == nil {
			t.Errorf("kept %+v", bad)
		}
	}
	if err := h.Store.KeepAct(t.Context(), act); err != nil {
		t.Fatal(err)
	}
	got, err := h.Store.Acts(t.Context(), "ledger", "journal", 10)
	if err != nil || len(got) != 1 || got[0].At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	got[0].At = act.At
	if got[0] != act {
		t.Errorf("%+v, want %+v", got[0], act)
	}
}
