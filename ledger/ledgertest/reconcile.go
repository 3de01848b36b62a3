package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var reconcileTests = []conformance{
	{"a database that went back is refused, reconciled, and knows every effect", testReconcile},
	{"a database that nothing is missing from is left alone", testReconcileClean},
	{"what nobody has confirmed yet shows that a database went back, before anybody works on it", testUnconfirmed},
	{"what cannot be put back keeps nobody from going on", testGoneUnconfirmed},
	{"a purged or new journal is no sign of an old database", testPurgedJournal},
	{"an empty database beside a journal in use is refused", testEmptyDatabase},
	{"a process that committed more than the database has refuses it", testWitness},
	{"a client that asked again before the lost run came back shares its effects", testRestoredClientKey},
	{"a run that went on another way keeps its history and learns of the lost effect", testForkedRun},
}

// backup is the state of the tables at a moment.
type backup struct {
	h Harness
	n int64
}

// savedTables are in the order in which rows may be inserted.
var savedTables = []string{
	"runs", "run_epochs", "effects", "effect_attempts", "events", "set_aside", "run_folds", "tool_call_records", "model_calls",
	"artifacts", "artifact_versions", "run_summaries", "cost_days", "sessions", "journal_positions", "rollbacks",
}

func (h Harness) backup(t tb) backup {
	b := backup{h, testCount.Add(1)}
	for _, table := range savedTables {
		h.sql(t, fmt.Sprintf(`CREATE TABLE saved_%d_%s AS SELECT * FROM %s`, b.n, table, table))
	}
	return b
}

// restore is what a restore from a backup does.
func (b backup) restore(t tb) {
	b.h.sql(t, `DELETE FROM facts`)
	for _, table := range slices.Backward(savedTables) {
		b.h.sql(t, `DELETE FROM `+table)
	}
	for _, table := range savedTables {
		b.h.sql(t, fmt.Sprintf(`INSERT INTO %s SELECT * FROM saved_%d_%s`, table, b.n, table))
	}
}

// book is a ledger with its journal.
type book struct {
	t      *testing.T
	h      Harness
	stream *memory.Stream
	reader *memory.Consumer
}

func newBook(t *testing.T, h Harness) *book {
	s := memory.NewStream(memory.Config{})
	return &book{t, h, s, s.Consumer()}
}

// publish puts the archived history of runs onto the journal, as their workers did.
func (b *book) publish(as ...*actor) {
	b.t.Helper()
	for _, a := range as {
		err := b.h.Store.Events(b.t.Context(), a.run.ID, 1, func(e events.Sealed) error {
			return b.stream.PublishRaw(a.worker, events.AppendMessage(nil, []events.Sealed{e}))
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// project projects and confirms what is there.
func (b *book) project() {
	b.t.Helper()
	for {
		ms, err := b.reader.Fetch(b.t.Context(), 10, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(ms) == 0 {
			return
		}
		var batch []ledger.Incoming
		for _, m := range ms {
			in := ledger.Incoming{Message: m}
			in.Events, in.Rejected, in.Err = events.ParseMessage(m.Data)
			batch = append(batch, in)
		}
		if _, err := b.h.Store.Project(b.t.Context(), batch); err != nil {
			b.t.Fatal(err)
		}
		if err := b.reader.Ack(b.t.Context(), ms...); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *book) position() events.Position {
	b.t.Helper()
	p, err := b.reader.Position(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// other is another process on the same database.
func (h Harness) other() Store { return sqlstore.New(h.DB, sqlstore.Config{Redactor: testSeal}) }

func (b *book) reconcile(dry bool) ledger.Reconciled {
	b.t.Helper()
	r, err := ledger.Reconcile(b.t.Context(), b.h.Store, b.reader, dry)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// refund begins a refund and, unless kind is empty, ends it.
func (a *actor) refund(kind ledger.OutcomeKind, opts ...func(*ledger.Intent)) ledger.Verdict {
	a.t.Helper()
	v := a.want(ledger.Execute, refund(opts...))
	if kind != "" {
		a.end(v.Ref.Token, kind)
	}
	a.flush()
	return v
}

// It is a restore to a point in time, or an asynchronous replica promoted.
// RELIABILITY row 16.
func testReconcile(t *testing.T, h Harness) {
	b := newBook(t, h)
	opened := func() *actor { a := start(t, h); a.opening(); a.flush(); return a }
	begun, applied, refused := opened(), opened(), opened()
	queued := submit(t, h)
	b.publish(begun, applied, refused)
	b.project()
	old := h.backup(t)
	// All this the backup does not have.
	inDoubt := begun.refund("")
	done := applied.refund(ledger.Applied)
	applied.finish(ledger.Finished)
	refused.refund(ledger.NotApplied)
	later := take(t, h, queued)
	later.opening()
	later.flush()
	later.refund(ledger.Applied)
	later.finish(ledger.Finished)
	unknown := opened()
	lost := unknown.refund("", inWindow)
	b.publish(begun, applied, refused, later, unknown)
	b.project()
	old.restore(t)
	h.Advance(2 * time.Second)

	if err := h.other().CompareJournal(t.Context(), b.position()); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatalf("compare: %v, want %v", err, ledger.ErrRolledBack)
	}
	for what, err := range map[string]error{
		"begin": func() error { _, err := begun.begin(refund()); return err }(),
		"claim": func() error {
			_, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", TTL: leaseTTL})
			return err
		}(),
		"project": func() error {
			_, err := h.Store.Project(t.Context(), []ledger.Incoming{message("w", 1, begun.events(1)...)})
			return err
		}(),
	} {
		if !errors.Is(err, ledger.ErrRolledBack) || !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s before reconciling: %v, want %v", what, err, ledger.ErrRolledBack)
		}
	}
	begun.prefix = nil

	dry := b.reconcile(true)
	if h.count(t, `SELECT count(*) FROM effects`) != 0 || !errors.Is(h.Store.RolledBack(t.Context()), ledger.ErrRolledBack) {
		t.Error("a dry run changed something")
	}
	got := b.reconcile(false)
	if len(dry.Runs) != 1 || len(got.Runs) != 1 || got.Runs[0].ID != unknown.run.ID || len(dry.Effects) != 5 || dry.Events != got.Events || got.Held == "" {
		t.Errorf("dry run: %+v\nthen: %+v", dry, got)
	}
	states := map[events.ID]events.EffectState{}
	for _, e := range got.Effects {
		states[e.Ref.Token] = e.State
	}
	if states[inDoubt.Ref.Token] != events.EffectInDoubt || states[lost.Ref.Token] != events.EffectInDoubt || states[done.Ref.Token] != events.EffectApplied {
		t.Errorf("effects are %v", states)
	}
	if err := h.Store.RolledBack(t.Context()); err != nil {
		t.Errorf("after reconciling: %v", err)
	}
	h.wantWhole(t, events.RunID{})
	h.Advance(2 * time.Second)

	// Every former holder is fenced, whatever epoch it was given.
	for _, a := range []*actor{begun, refused, unknown} {
		if _, err := h.Store.Flush(t.Context(), a.lease, nil); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("a former holder's flush: %v, want %v", err, ledger.ErrFenced)
		}
	}
	next := takeover(t, h, begun.run)
	next.want(ledger.InDoubt, refund())
	next.flush()
	if got := next.run.Epoch; got <= begun.lease.Epoch+1 {
		t.Errorf("the next epoch is %d, %d had been given", got, begun.lease.Epoch)
	}
	u := takeover(t, h, unknown.run)
	u.want(ledger.InDoubt, refund(inWindow))
	u.flush()
	again := takeover(t, h, refused.run)
	again.want(ledger.Execute, refund())
	again.flush()
	for _, a := range []*actor{applied, later} {
		n := takeover(t, h, a.run)
		if v := n.want(ledger.Replay, refund()); v.Of.Run != a.run.ID {
			t.Errorf("replayed from run %s", v.Of.Run)
		}
		if err := h.Store.Finish(t.Context(), n.lease, n.prefix, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish}); err != nil {
			t.Errorf("finish what had finished: %v", err)
		}
	}
	h.foldAll(t)
	h.wantWhole(t, events.RunID{})
	if r := b.reconcile(false); !r.Clean() || r.Raised != 0 {
		t.Errorf("reconciled twice: %+v", r)
	}
}

// A projector that is behind has confirmed nothing that the restored database
// does not have, but what it has not read yet tells of it. Without a look there
// the runs would be taken, and their effects made again.
func testUnconfirmed(t *testing.T, h Harness) {
	books := 0
	opened := func() *actor { a := start(t, h); a.opening(); a.flush(); return a }
	for name, lose := range map[string]func() (before, after func() *actor){
		"an attempt": func() (before, after func() *actor) {
			a := opened()
			return func() *actor { return a }, func() *actor { a.refund(""); return a }
		},
		"an epoch": func() (before, after func() *actor) {
			r := submit(t, h)
			return func() *actor { return nil }, func() *actor { a := take(t, h, r); a.opening(); a.flush(); return a }
		},
		"a run": func() (before, after func() *actor) {
			return func() *actor { return nil }, opened
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, h)
			for range books { // each a journal of its own, which the database does not take for another
				b.stream.Reset()
			}
			books++
			before, after := lose()
			if a := before(); a != nil {
				b.publish(a)
			}
			old := h.backup(t)
			b.publish(after())
			guarded := func() error {
				st := h.other()
				st.(interface{ Guard(events.Reader) }).Guard(b.reader)
				_, err := st.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Queues: []string{"none"}, TTL: leaseTTL})
				return err
			}
			if err := guarded(); err != nil {
				t.Fatalf("nothing is missing: %v", err)
			}
			old.restore(t)
			h.Advance(2 * time.Second)
			if err := guarded(); !errors.Is(err, ledger.ErrRolledBack) {
				t.Fatalf("claim: %v, want %v", err, ledger.ErrRolledBack)
			}
			if r := b.reconcile(false); r.Clean() || r.Held == "" {
				t.Errorf("reconciled: %+v", r)
			}
			h.Advance(2 * time.Second)
			if err := guarded(); err != nil {
				t.Errorf("after reconciling: %v", err)
			}
			h.wantWhole(t, events.RunID{})
		})
	}
}

// testGoneUnconfirmed: of a run that a restored database lacks, the journal has
// only the rest. It cannot be put back, and once that has been said the others go on.
func testGoneUnconfirmed(t *testing.T, h Harness) {
	b := newBook(t, h)
	old := h.backup(t)
	a := start(t, h)
	a.opening()
	a.flush()
	err := h.Store.Events(t.Context(), a.run.ID, 2, func(e events.Sealed) error {
		return b.stream.PublishRaw(a.worker, events.AppendMessage(nil, []events.Sealed{e}))
	})
	if err != nil || b.stream.Messages() == 0 {
		t.Fatalf("%d messages, %v", b.stream.Messages(), err)
	}
	old.restore(t)
	h.Advance(2 * time.Second)
	guarded := func() Store {
		st := h.other()
		st.(interface{ Guard(events.Reader) }).Guard(b.reader)
		return st
	}
	claim := func() error {
		_, err := guarded().Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Queues: []string{"none"}, TTL: leaseTTL})
		return err
	}
	if err := claim(); !errors.Is(err, ledger.ErrRolledBack) {
		t.Fatalf("claim: %v, want %v", err, ledger.ErrRolledBack)
	}
	if r := b.reconcile(false); len(r.Gone) != 1 || r.Gone[0] != a.run.ID {
		t.Fatalf("reconciled: %+v", r)
	}
	h.Advance(2 * time.Second)
	if err := claim(); err != nil {
		t.Errorf("after reconciling: %v", err)
	}
	b.project()
	if lag, err := b.reader.Lag(t.Context()); lag != 0 || err != nil {
		t.Errorf("%d messages are not dealt with, %v", lag, err)
	}
	if err := claim(); err != nil {
		t.Errorf("after projecting: %v", err)
	}
}

func inWindow(in *ledger.Intent) {
	in.Scope, in.Window = ledger.ScopeTenant, ledger.Forever
	order(99)(in)
}

func (h Harness) foldAll(t tb) {
	t.Helper()
	for {
		n, err := h.Store.FoldBehind(t.Context(), 0, 100)
		if err != nil {
			t.Fatalf("fold: %v", err)
		}
		if n == 0 {
			return
		}
	}
}

func testReconcileClean(t *testing.T, h Harness) {
	b := newBook(t, h)
	a := start(t, h)
	a.opening()
	v := a.refund(ledger.Applied)
	b.publish(a)
	b.project()
	if err := h.other().CompareJournal(t.Context(), b.position()); err != nil {
		t.Fatal(err)
	}
	before := h.state(t, a.run.ID)
	if r := b.reconcile(false); !r.Clean() || r.Raised != 0 || r.Held != "" || r.Messages == 0 {
		t.Errorf("%+v", r)
	}
	if after := h.state(t, a.run.ID); after.Epoch != before.Epoch || !after.LeaseUntil.Equal(before.LeaseUntil) {
		t.Errorf("run %+v, was %+v", after, before)
	}
	h.Advance(2 * time.Second)
	if w := a.want(ledger.Replay, refund()); w.Ref.OpKey != v.Ref.OpKey {
		t.Error("another effect")
	}
}

func testPurgedJournal(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	h.project(t, a.sent()...)
	for _, p := range []events.Position{
		{Incarnation: "1", First: 1, Last: 9, Confirmed: 7}, // the first that is seen is taken as it is
		{Incarnation: "1", First: 1, Last: 9, Confirmed: 7},
		{Incarnation: "1", First: 21, Last: 20, Confirmed: 20}, // purged: nothing is there that could be missing
		{Incarnation: "1", First: 21, Last: 25, Confirmed: 20},
		{Incarnation: "2", First: 1, Last: 3, Confirmed: 0}, // made anew
	} {
		if err := h.other().CompareJournal(t.Context(), p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := h.other().CompareJournal(t.Context(), events.Position{Incarnation: "1", First: 1, Last: 9, Confirmed: 8}); !errors.Is(err, ledger.ErrRolledBack) {
		t.Errorf("confirmed beyond the database: %v", err)
	}
}

func testEmptyDatabase(t *testing.T, h Harness) {
	if err := h.Store.CompareJournal(t.Context(), events.Position{Incarnation: "1", First: 1}); err != nil {
		t.Errorf("both are new: %v", err)
	}
	h.sql(t, `DELETE FROM journal_positions`)
	if err := h.Store.CompareJournal(t.Context(), events.Position{Incarnation: "1", First: 3, Last: 9, Confirmed: 8}); !errors.Is(err, ledger.ErrRolledBack) {
		t.Errorf("the journal is not: %v", err)
	}
}

func testWitness(t *testing.T, h Harness) {
	b := newBook(t, h)
	a := start(t, h)
	a.opening()
	a.flush()
	old := h.backup(t)
	b.publish(a)
	b.project()
	old.restore(t)
	if err := b.stream.PublishRaw("w", events.AppendMessage(nil, a.events(1))); err != nil {
		t.Fatal(err)
	}
	ms, err := b.reader.Fetch(t.Context(), 10, 0)
	if err != nil || len(ms) != 1 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	in := ledger.Incoming{Message: ms[0]}
	in.Events, in.Rejected, in.Err = events.ParseMessage(ms[0].Data)
	if _, err := h.Store.Project(t.Context(), []ledger.Incoming{in}); !errors.Is(err, ledger.ErrRolledBack) {
		t.Errorf("project: %v, want %v", err, ledger.ErrRolledBack)
	}
	if err := h.other().RolledBack(t.Context()); !errors.Is(err, ledger.ErrRolledBack) {
		t.Errorf("another process: %v, want %v", err, ledger.ErrRolledBack)
	}
	b.reconcile(false)
	if _, err := h.Store.Project(t.Context(), []ledger.Incoming{in}); err != nil {
		t.Errorf("after reconciling: %v", err)
	}
}

func testRestoredClientKey(t *testing.T, h Harness) {
	b := newBook(t, h)
	old := h.backup(t)
	s := submission(t)
	run, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	a := take(t, h, run)
	a.opening()
	a.refund(ledger.Applied)
	b.publish(a)
	b.project()
	old.restore(t)
	h.Advance(2 * time.Second)
	twin, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || existed {
		t.Fatalf("submit again: existed %v, %v", existed, err)
	}
	r := b.reconcile(false)
	if len(r.Runs) != 1 || r.Runs[0].ID != run.ID {
		t.Fatalf("restored %+v", r.Runs)
	}
	h.Advance(2 * time.Second)
	cs := claimIn(t, h, s.Queue, 10, "agent/"+s.Agent)
	var got *actor
	for _, c := range cs {
		if c.Run.ID == twin.ID {
			got = &actor{t: t, h: h, run: c.Run, lease: c.Lease, seen: map[events.ID]bool{}, prev: events.Genesis(twin.ID), worker: "w"}
			if c.Kind == ledger.ClaimTakeover {
				h.base(t, c.Lease)
			}
		}
	}
	if got == nil || len(cs) != 2 {
		t.Fatalf("%d claims, want both runs", len(cs))
	}
	if v := got.want(ledger.Replay, refund()); v.Of.Run != run.ID {
		t.Errorf("replayed from run %s, want %s", v.Of.Run, run.ID)
	}
}

func testForkedRun(t *testing.T, h Harness) {
	b := newBook(t, h)
	run := submit(t, h)
	old := h.backup(t)
	a := take(t, h, run)
	a.opening()
	lost := a.refund("")
	b.publish(a)
	b.project()
	old.restore(t)
	// Nobody noticed, and the run was taken once more: the same epoch, other events.
	other := h.other()
	h.Store = other
	w := take(t, h, run)
	w.opening()
	w.flush()
	r := b.reconcile(false)
	if !slices.Contains(r.Forked, run.ID) {
		t.Errorf("forked runs %v", r.Forked)
	}
	e, err := h.Store.Effects(t.Context(), ledger.EffectFilter{Run: run.ID})
	if err != nil || len(e) != 1 || e[0].State != events.EffectInDoubt || e[0].OpKey != lost.Ref.OpKey {
		t.Errorf("effects %+v, %v", e, err)
	}
	h.foldAll(t)
	for _, f := range h.verify(t, run.ID) { // that the history lacks the call is said
		if f.Kind == ledger.Tampered {
			t.Errorf("verify: %s seq %d: %s", f.Kind, f.Seq, f.Text)
		}
	}
	h.Advance(leaseTTL)
	take(t, h, run).want(ledger.InDoubt, refund())
}
