package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var sessionTests = []conformance{
	{"runs go one after another, in the order of submission", testSessionOrder},
	{"a session's name alone is a scope and orders nothing", testSessionScope},
	{"a run goes on from the last that ended, facts behind its end included", testSessionOrigin},
	{"what a run goes on from is frozen by its first claim", testSessionFrozen},
	{"a failed run's retry keeps its place", testSessionRetry},
	{"a dead run is what the next goes on from, until it is queued again", testSessionDead},
	{"a dead run that others went on from is queued again as the last", testSessionDeadLater},
	{"a retry that never began leaves what the attempt before it did", testSessionRetryNeverBegan},
	{"a dead run keeps its place although one behind it was cancelled before it began", testSessionDeadCancelled},
	{"a submission that was accepted stays accepted", testSessionKey},
	{"after a restore a run goes on from what its record says, and the head does not go back", testSessionRestored},
	{"after a restore a run that is cancelled goes on from what its record says", testSessionRestoredCancelled},
	{"a run cancelled while it waits is passed over", testSessionCancelled},
	{"a run that never began is nothing to go on from", testSessionNeverBegan},
	{"a session is its owner's and its tenant's", testSessionOwner},
	{"nobody continues the session of an erased owner", testSessionErased},
	{"the same submission has one place", testSessionTwice},
	{"forks and children take no place", testSessionForks},
	{"two workers at once hold one run", testSessionRace},
	{"many submit, work and cancel at once", testSessionCrowd},
	{"lists are in order and have no other tenant's", testSessionLists},
	{"a forged origin is found", testSessionForged},
	{"a run that waits for nothing is found and let go", testSessionStuck},
}

// TestSessions (PR-97) checks runs that share a transcript: open returns a store that has been
// migrated, and its clock.
func TestSessions(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range sessionTests {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func continuing(id string) submitOption {
	return func(s *ledger.Submission) { s.SessionID, s.Continue = id, true }
}

func inQueue(name string) submitOption { return func(s *ledger.Submission) { s.Queue = name } }

// place is what the first event of a run says of its session.
func (a *actor) place() *events.SessionPlace {
	if a.run.SessionPlace == 0 {
		return nil
	}
	o := a.run.Continues
	return &events.SessionPlace{Place: a.run.SessionPlace, Run: o.Run, Seq: o.Seq, Hash: o.Hash}
}

// openIn records what begins a run of a session.
func (a *actor) openIn() *actor {
	a.t.Helper()
	a.queuedIn()
	a.note(events.RunStarted{Worker: a.worker, Agent: a.run.Agent})
	return a
}

func (a *actor) queuedIn() *actor {
	a.t.Helper()
	a.note(events.RunQueued{
		Agent: a.run.Agent, Owner: a.run.Owner, Root: a.run.Root, Input: a.run.Input, ClientKey: a.run.ClientKey, Queue: a.run.Queue, QueuedAt: a.run.CreatedAt,
		RetryOf: a.run.RetryOf, Session: a.place(),
	})
	return a
}

func mustEnd(t tb, h Harness, r ledger.Run) ledger.Run {
	t.Helper()
	a := take(t, h, r)
	if a.run.ID != r.ID {
		t.Fatalf("claimed run %s, want %s", a.run.ID, r.ID)
	}
	a.openIn().finish(ledger.Finished)
	return h.state(t, r.ID)
}

func testSessionOrder(t *testing.T, h Harness) {
	var rs []ledger.Run
	for i := range 4 {
		// Priority and time do not overtake.
		rs = append(rs, submit(t, h, continuing("s"), inQueue("q"), func(s *ledger.Submission) { s.Priority = i }))
	}
	other := submit(t, h, continuing("other"), inQueue("q"))
	for i, r := range rs {
		if got := h.state(t, r.ID); got.SessionPlace != uint64(i+1) || got.BehindAt.IsZero() != (i == 0) {
			t.Fatalf("run %d: place %d, behind since %s", i, got.SessionPlace, got.BehindAt)
		}
	}
	cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Queues: []string{"q"}, TTL: leaseTTL, Limit: 10})
	if err != nil || len(cs) != 2 {
		t.Fatalf("%d claims, want that of each session's first run: %v", len(cs), err)
	}
	for _, c := range cs {
		if c.Run.ID != rs[0].ID && c.Run.ID != other.ID {
			t.Errorf("claimed %s", c.Run.ID)
		}
	}
	if tryTake(t, h, rs[1]) != nil {
		t.Fatal("the second was claimed while the first is running")
	}
	if st, err := h.Store.QueueStats(t.Context(), "q"); err != nil || st[0].Behind != 3 || st[0].Queued != 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
	h.Advance(leaseTTL + time.Second)
	h.sql(t, `UPDATE runs SET queue = 'other' WHERE id = $1`, other.ID)
	for i := range rs {
		a := take(t, h, rs[i])
		if a.run.ID != rs[i].ID {
			t.Fatalf("claimed %s, want run %d", a.run.ID, i)
		}
		// A run that waits lets nobody by.
		a.openIn()
		if err := a.h.Store.Park(t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkSignal}); err != nil {
			t.Fatal(err)
		}
		if i+1 < len(rs) && tryTake(t, h, rs[i+1]) != nil {
			t.Fatal("a run was claimed while the one before it waits")
		}
		if err := h.Store.Signal(t.Context(), rs[i].ID, ledger.Signal{Name: "go", Key: "k", From: "ann"}); err != nil {
			t.Fatal(err)
		}
		a = take(t, h, rs[i])
		a.finish(ledger.Finished)
	}
}

func testSessionScope(t *testing.T, h Harness) {
	a := start(t, h, inSession("s"), inQueue("q"))
	b := start(t, h, inSession("s"), inQueue("q"))
	if a.run.SessionPlace != 0 || b.run.SessionPlace != 0 || !b.run.BehindAt.IsZero() || !b.run.Continues.IsZero() {
		t.Errorf("%+v", b.run)
	}
	if _, err := h.Store.Session(t.Context(), "acme", "s"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("there is a session: %v", err)
	}
	c := start(t, h, continuing("s"), inQueue("q"))
	if c.run.SessionPlace != 1 {
		t.Errorf("place %d", c.run.SessionPlace)
	}
	if _, _, err := h.Store.Submit(t.Context(), func() ledger.Submission { s := submission(t); s.Continue = true; return s }()); err == nil {
		t.Error("no session was continued")
	}
}

func testSessionOrigin(t *testing.T, h Harness) {
	a := start(t, h, continuing("s"))
	if !a.run.Continues.IsZero() {
		t.Errorf("the first goes on from %+v", a.run.Continues)
	}
	a.openIn()
	v := a.want(ledger.Execute, refund())
	second := submit(t, h, continuing("s"))
	a.flush()
	a.finish(ledger.Finished)
	// The outcome comes when the run has ended, and is put behind its end.
	a.end(v.Ref.Token, ledger.Applied)
	settler := take(t, h, a.run)
	settler.flush()
	if err := h.Store.Release(t.Context(), settler.lease, settler.prefix); err != nil {
		t.Fatal(err)
	}
	want := ledger.Origin{Run: a.run.ID, Seq: settler.seq, Hash: settler.prev}
	b := take(t, h, second)
	if b.run.Continues != want || want.Seq <= a.seq {
		t.Errorf("goes on from %+v, want %+v behind %d", b.run.Continues, want, a.seq)
	}
	if got := h.state(t, second.ID); got.Continues != want {
		t.Errorf("the row says %+v", got.Continues)
	}
	b.openIn().finish(ledger.Finished)
	h.wantWhole(t, b.run.ID)
	if s, err := h.Store.Session(t.Context(), "acme", "s"); err != nil || s.Head != b.run.ID || s.Places != 2 {
		t.Errorf("session %+v, %v", s, err)
	}
}

func testSessionFrozen(t *testing.T, h Harness) {
	a := mustEnd(t, h, submit(t, h, continuing("s")))
	b := start(t, h, continuing("s"))
	origin := b.run.Continues
	if origin.Run != a.ID {
		t.Fatalf("goes on from %+v", origin)
	}
	// Whatever is added to the first run, the heir goes on from where the holder did.
	h.sql(t, `UPDATE sessions SET head_seq = 1`)
	c := b.successor()
	if c.run.Continues != origin {
		t.Errorf("after a takeover: %+v, want %+v", c.run.Continues, origin)
	}
}

func testSessionRetry(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	a := start(t, h, continuing("s"))
	later := submit(t, h, continuing("s"))
	a.openIn().fail(events.StoppedByError, thrice)
	r := next(t, h, a.run)
	if tryTake(t, h, later) != nil {
		t.Fatal("the later run overtook a retry")
	}
	h.Advance(11 * time.Second)
	b := take(t, h, r)
	if b.run.SessionPlace != a.run.SessionPlace || b.run.Continues != a.run.Continues || b.run.Continues.Run != first.ID {
		t.Errorf("retry: place %d, goes on from %+v", b.run.SessionPlace, b.run.Continues)
	}
	b.openIn().finish(ledger.Finished)
	if c := take(t, h, later); c.run.Continues.Run != b.run.ID {
		t.Errorf("the later run goes on from %+v", c.run.Continues)
	}
	h.wantWhole(t, b.run.ID)
}

func testSessionDead(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	a := start(t, h, continuing("s"))
	later := submit(t, h, continuing("s"))
	a.openIn().fail(events.StoppedByMaxTurns, ledger.Retry{})
	if s, _ := h.Store.Session(t.Context(), "acme", "s"); s.Head != a.run.ID {
		t.Errorf("head %s, want the dead run", s.Head)
	}
	if got := h.state(t, later.ID); !got.BehindAt.IsZero() {
		t.Error("the later run still waits")
	}
	r, err := h.Store.Requeue(t.Context(), a.run.ID, 1, "ann", "the limit was raised")
	if err != nil || r.SessionPlace != a.run.SessionPlace || r.Continues.Run != first.ID {
		t.Fatalf("queued again: %+v, %v", r, err)
	}
	if tryTake(t, h, later) != nil {
		t.Fatal("the later run overtook the one that was queued again")
	}
	b := takeFork(t, h, r) // the dead run was told
	b.openIn().finish(ledger.Finished)
	if c := take(t, h, later); c.run.Continues.Run != r.ID {
		t.Errorf("goes on from %+v", c.run.Continues)
	}
}

func testSessionDeadLater(t *testing.T, h Harness) {
	a := start(t, h, continuing("s"))
	a.openIn().fail(events.StoppedByMaxTurns, ledger.Retry{})
	b := mustEnd(t, h, submit(t, h, continuing("s")))
	if b.Continues.Run != a.run.ID {
		t.Errorf("goes on from %+v", b.Continues)
	}
	waiting := submit(t, h, continuing("s"))
	r, err := h.Store.Requeue(t.Context(), a.run.ID, 1, "ann", "again")
	if err != nil || r.SessionPlace != 4 || !r.Continues.IsZero() {
		t.Fatalf("queued again: %+v, %v", r, err)
	}
	if k := tryTake(t, h, r); k == nil || k.run.ID != a.run.ID { // the dead run was told
		t.Fatal("it overtook the run before it")
	} else if err := h.Store.Release(t.Context(), k.lease, nil); err != nil {
		t.Fatal(err)
	}
	if tryTake(t, h, r) != nil {
		t.Fatal("it overtook the run before it")
	}
	mustEnd(t, h, waiting)
	if c := take(t, h, r); c.run.Continues.Run != waiting.ID {
		t.Errorf("goes on from %+v", c.run.Continues)
	}
}

func testSessionCancelled(t *testing.T, h Harness) {
	a := start(t, h, continuing("s"))
	b, c := submit(t, h, continuing("s")), submit(t, h, continuing("s"))
	if _, err := h.Store.Cancel(t.Context(), b.ID, "ann", "no"); err != nil {
		t.Fatal(err)
	}
	k := tryTake(t, h, b)
	if !k.run.Continues.IsZero() {
		t.Errorf("a cancelled run goes on from %+v", k.run.Continues)
	}
	k.queuedIn().finish(ledger.Cancelled)
	if tryTake(t, h, c) != nil {
		t.Fatal("its end let a later run go while the first is running")
	}
	a.openIn().finish(ledger.Finished)
	if d := take(t, h, c); d.run.Continues.Run != a.run.ID {
		t.Errorf("goes on from %+v", d.run.Continues)
	}
	h.wantWhole(t, b.ID)
}

func testSessionNeverBegan(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	b := submit(t, h, continuing("s"))
	if _, err := h.Store.Cancel(t.Context(), b.ID, "ann", "no"); err != nil {
		t.Fatal(err)
	}
	tryTake(t, h, b).queuedIn().finish(ledger.Cancelled)
	if c := start(t, h, continuing("s")); c.run.Continues.Run != first.ID {
		t.Errorf("goes on from %+v", c.run.Continues)
	}
}

func testSessionOwner(t *testing.T, h Harness) {
	mine := mustEnd(t, h, submit(t, h, continuing("s"), ownedBy("ann")))
	for _, owner := range []string{"bob", ""} {
		s := submission(t)
		s.SessionID, s.Continue, s.Owner = "s", true, owner
		if _, _, err := h.Store.Submit(t.Context(), s); !errors.Is(err, ledger.ErrSessionOwner) {
			t.Errorf("owner %q continues it: %v", owner, err)
		}
	}
	theirs := start(t, h, continuing("s"), ofTenant("other"), ownedBy("bob"))
	if theirs.run.SessionPlace != 1 || !theirs.run.Continues.IsZero() {
		t.Errorf("another tenant goes on from %+v", theirs.run.Continues)
	}
	if a := start(t, h, continuing("s"), ownedBy("ann")); a.run.Continues.Run != mine.ID {
		t.Errorf("the owner goes on from %+v", a.run.Continues)
	}
}

func testSessionErased(t *testing.T, h Harness) {
	a := mustEnd(t, h, submit(t, h, continuing("s"), ownedBy("ann")))
	b := mustEnd(t, h, submit(t, h, continuing("s"), ownedBy("ann")))
	queued := submit(t, h, continuing("s"), ownedBy("ann"))
	e, err := h.Store.Erase(t.Context(), "acme", "ann", "dpo")
	if err != nil || e.Sessions != 1 {
		t.Fatalf("erased: %+v, %v", e, err)
	}
	s := submission(t)
	s.SessionID, s.Continue, s.Owner = "s", true, "ann"
	if _, _, err := h.Store.Submit(t.Context(), s); !errors.Is(err, ledger.ErrSessionErased) {
		t.Errorf("it was continued: %v", err)
	}
	// What was accepted before goes on.
	if c := take(t, h, queued); c.run.Continues.Run != b.ID || a.ID == b.ID {
		t.Errorf("goes on from %+v", c.run.Continues)
	}
}

func testSessionTwice(t *testing.T, h Harness) {
	s := submission(t)
	s.SessionID, s.Continue = "s", true
	first, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || existed {
		t.Fatal(existed, err)
	}
	second, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || !existed || second.ID != first.ID || second.SessionPlace != 1 {
		t.Errorf("again: %+v, %v, %v", second, existed, err)
	}
	if got, _ := h.Store.Session(t.Context(), "acme", "s"); got.Places != 1 {
		t.Errorf("%d places", got.Places)
	}
}

func testSessionForks(t *testing.T, h Harness) {
	first := mustEnd(t, h, submit(t, h, continuing("s")))
	a := start(t, h, continuing("s"))
	a.openIn().flush()
	f := forkOf(t, h, a.run.ID, 2)
	if f.SessionPlace != 0 || !f.Continues.IsZero() || f.SessionID != "s" {
		t.Errorf("fork: %+v", f)
	}
	if b := takeFork(t, h, f); b.run.ID != f.ID { // while its origin is running
		t.Errorf("claimed %s", b.run.ID)
	}
	if got := h.state(t, a.run.ID); got.Continues.Run != first.ID {
		t.Errorf("origin goes on from %+v", got.Continues)
	}
	child := submit(t, h, childOf(a.run), inSession("s"))
	if got := take(t, h, child); got.run.SessionPlace != 0 {
		t.Errorf("child: %+v", got.run)
	}
}
