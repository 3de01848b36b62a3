package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func testSessionRace(t *testing.T, h Harness) {
	for range 8 {
		a, b := submit(t, h, continuing("race"), inQueue("race")), submit(t, h, continuing("race"), inQueue("race"))
		var mu sync.Mutex
		var got []ledger.Claim
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: fmt.Sprint("racer", i), Queues: []string{"race"}, TTL: leaseTTL, Limit: 2})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, cs...)
			})
		}
		all.Wait()
		if len(got) != 1 || got[0].Run.ID != a.ID {
			t.Fatalf("%d claims at once", len(got))
		}
		h.Advance(leaseTTL + time.Second)
		mustEnd(t, h, a)
		mustEnd(t, h, b)
	}
}

// testSessionCrowd: whatever is done at once, every run has its turn, in order.
func testSessionCrowd(t *testing.T, h Harness) {
	const submitters, each = 4, 5
	var mu sync.Mutex
	var order []ledger.Run
	var all sync.WaitGroup
	for range submitters {
		all.Go(func() {
			for i := range each {
				r := submit(t, h, continuing("crowd"), inQueue("crowd"))
				if i == 2 {
					if _, err := h.Store.Cancel(t.Context(), r.ID, "ann", "no"); err != nil && !errors.Is(err, ledger.ErrEnded) {
						t.Error(err)
					}
				}
			}
		})
	}
	ended := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(order)
	}
	for range 3 {
		all.Go(func() {
			for ended() < submitters*each && t.Context().Err() == nil && !t.Failed() {
				a := tryTake(t, h, ledger.Run{Queue: "crowd", Agent: "clerk"})
				if a == nil {
					continue
				}
				if a.prev == events.Genesis(events.RunID{}) {
					a.prev = events.Genesis(a.run.ID)
				}
				if a.run.State == ledger.Cancelling {
					a.queuedIn()
					a.finish(ledger.Cancelled)
				} else if !a.run.State.Ended() {
					a.openIn()
					if _, err := h.Store.Flush(t.Context(), a.lease, a.prefix); err != nil {
						t.Error(err)
					}
					a.prefix = nil
					if err := a.tryFinish(ledger.Finished); err != nil {
						t.Error(err)
						return
					}
				} else {
					continue
				}
				mu.Lock()
				order = append(order, h.state(t, a.run.ID))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	begun := order[:0:0]
	for _, r := range order {
		if r.State == ledger.Finished {
			begun = append(begun, r)
		}
	}
	slices.SortFunc(begun, func(a, b ledger.Run) int { return int(a.SessionPlace) - int(b.SessionPlace) }) //nolint:gosec // small
	for i, r := range begun {
		var want events.RunID
		if i > 0 {
			want = begun[i-1].ID
			if r.StartedAt.Before(begun[i-1].EndedAt) {
				t.Errorf("place %d began at %s, before place %d ended at %s", r.SessionPlace, r.StartedAt, begun[i-1].SessionPlace, begun[i-1].EndedAt)
			}
		}
		if r.Continues.Run != want {
			t.Errorf("place %d goes on from %s, want %s", r.SessionPlace, r.Continues.Run, want)
		}
		h.wantWhole(t, r.ID)
	}
	if n := h.count(t, `SELECT count(*) FROM runs WHERE session_id = 'crowd' AND ended_at IS NULL`); n != 0 {
		t.Errorf("%d runs have not ended", n)
	}
}

func testSessionLists(t *testing.T, h Harness) {
	for i := range 3 {
		submit(t, h, continuing(fmt.Sprint("s", i)), ownedBy("ann"))
		h.Advance(time.Second)
	}
	submit(t, h, continuing("s0"), ownedBy("ann")) // used again
	submit(t, h, continuing("s9"), ofTenant("other"))
	submit(t, h, continuing("s8"))
	ids := func(f ledger.SessionFilter) (ids []string) {
		t.Helper()
		list, err := h.Store.Sessions(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return ids
	}
	if d := cmp.Diff([]string{"s0", "s2", "s1"}, ids(ledger.SessionFilter{Tenant: "acme", Owner: "ann"})); d != "" {
		t.Error(d)
	}
	page, _ := h.Store.Sessions(t.Context(), ledger.SessionFilter{Tenant: "acme", Owner: "ann", Limit: 2})
	if d := cmp.Diff([]string{"s1"}, ids(ledger.SessionFilter{Tenant: "acme", Owner: "ann", Before: &page[1]})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"s9"}, ids(ledger.SessionFilter{Tenant: "other"})); d != "" {
		t.Error(d)
	}
	rs, err := h.Store.SessionRuns(t.Context(), "acme", "s0", 0, 0)
	if err != nil || len(rs) != 2 || rs[0].SessionPlace != 1 || rs[1].SessionPlace != 2 {
		t.Errorf("runs %+v, %v", rs, err)
	}
	if rs, err := h.Store.SessionRuns(t.Context(), "acme", "s0", 2, 1); err != nil || len(rs) != 1 || rs[0].SessionPlace != 2 {
		t.Errorf("runs from the second on: %+v, %v", rs, err)
	}
	if rs, err := h.Store.SessionRuns(t.Context(), "other", "s0", 0, 0); err != nil || len(rs) != 0 {
		t.Errorf("another tenant reads %d runs, %v", len(rs), err)
	}
	if _, err := h.Store.Session(t.Context(), "other", "s0"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("another tenant reads the session: %v", err)
	}
}

func testSessionForged(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	stranger := mustEnd(t, h, submit(t, h, continuing("s"), ofTenant("other")))
	top := func(r ledger.Run) events.Hash {
		var h1 events.Hash
		for _, s := range h.stored(t, r.ID) {
			h1 = s.hash
		}
		return h1
	}
	for name, forge := range map[string]func(r ledger.Run) ledger.Origin{
		"another hash":     func(r ledger.Run) ledger.Origin { o := r.Continues; o.Hash = events.Hash{9}; return o },
		"another event":    func(r ledger.Run) ledger.Origin { o := r.Continues; o.Seq--; return o },
		"another tenant's": func(ledger.Run) ledger.Origin { return ledger.Origin{Run: stranger.ID, Seq: 3, Hash: top(stranger)} },
		"none":             func(ledger.Run) ledger.Origin { return ledger.Origin{} },
	} {
		a := start(t, h, continuing("s"))
		if a.run.Continues.IsZero() {
			t.Fatal("goes on from nothing")
		}
		whole := a.run
		a.run.Continues = forge(a.run)
		a.openIn().finish(ledger.Finished)
		if fs := h.verify(t, whole.ID); !slices.ContainsFunc(fs, func(f ledger.Finding) bool { return f.Kind == ledger.Tampered }) {
			t.Errorf("%s in the record: %+v", name, fs)
		}
		// Whoever changes the row, too, meets the event itself.
		o := a.run.Continues
		h.sql(t, `UPDATE runs SET continues_run = $2, continues_seq = $3, continues_hash = $4 WHERE id = $1`, whole.ID, o.Run, o.Seq, o.Hash)
		fs := h.verify(t, whole.ID)
		if found := slices.ContainsFunc(fs, func(f ledger.Finding) bool { return f.Kind != ledger.Note }); !found && name != "none" {
			t.Errorf("%s in record and row: %+v", name, fs)
		}
	}
	if first.Continues.Run != (events.RunID{}) {
		t.Errorf("%+v", first.Continues)
	}
	h.sql(t, `UPDATE runs SET session_place = 7 WHERE id = $1`, first.ID)
	if fs := h.verify(t, first.ID); !slices.ContainsFunc(fs, func(f ledger.Finding) bool { return f.Kind == ledger.Tampered }) {
		t.Errorf("another place: %+v", fs)
	}
}

func testSessionStuck(t *testing.T, h Harness) {
	a := start(t, h, continuing("s"))
	b := submit(t, h, continuing("s"))
	h.Advance(time.Hour)
	stuck := func() (kinds []ledger.StuckKind) {
		list, err := h.Store.Stuck(t.Context(), ledger.StuckFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Run == b.ID {
				kinds = append(kinds, s.Kind)
			}
		}
		return kinds
	}
	if got := stuck(); len(got) != 0 {
		t.Errorf("a run that waits for another is stuck: %v", got)
	}
	// A worker of before ends runs without a look at their session.
	h.sql(t, `UPDATE runs SET state = 'cancelled', ended_at = due_at, lease_until = NULL WHERE id = $1`, a.run.ID)
	if got := stuck(); !slices.Equal(got, []ledger.StuckKind{ledger.StuckSession}) {
		t.Errorf("stuck: %v", got)
	}
	submit(t, h, continuing("s"))
	if got := stuck(); len(got) != 0 {
		t.Errorf("still stuck: %v", got)
	}
	if c := take(t, h, b); c.run.ID != b.ID {
		t.Errorf("claimed %s", c.run.ID)
	}
}
