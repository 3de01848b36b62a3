package ledgertest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var forkTests = []conformance{
	{"a fork begins with the history and shares the lineage", testForkRow},
	{"a fork asked twice is the same run", testForkTwice},
	{"a fork needs the events it begins with", testForkNeedsEvents},
	{"an ended run is told that it was forked", testForkEnded},
	{"what the run has done is handed back to its fork", testForkReplays},
	{"an effect of a live run is busy, and its fork is woken", testForkBusy},
	{"an effect of an ended run goes to its fork", testForkAdopts},
	{"an effect that may still be running is not taken from an ended run", testForkWaitsForExecutor},
	{"an effect of an ended stranger is left to a person", testStrangerDoesNotAdopt},
	{"a cancelling run begins nothing new", testCancellingBeginsNothing},
	{"a fork is verified against what it begins with", testVerifyFork},
	{"runs that work for a fork do what it does", testForkChildren},
}

func forkOf(t tb, h Harness, run events.RunID, seq uint64) ledger.Run {
	t.Helper()
	r, existed, err := h.Store.Fork(t.Context(), ledger.ForkRequest{Run: run, Seq: seq, Effects: ledger.ForkReplay, By: "ann"})
	if err != nil || existed {
		t.Fatalf("fork: existed %v, %v", existed, err)
	}
	return r
}

// takeFork claims the fork; its origin, which was told a fact, is settled before.
func takeFork(t tb, h Harness, fork ledger.Run, own ...events.ID) *actor {
	t.Helper()
	for range 3 {
		a := tryTake(t, h, fork, own...)
		if a == nil {
			break
		}
		a.absorb(a.facts...)
		if a.run.ID == fork.ID {
			return a
		}
		a.flush()
		if err := h.Store.Release(t.Context(), a.lease, a.prefix); err != nil {
			t.Fatalf("release the origin: %v", err)
		}
	}
	t.Fatalf("fork %s cannot be claimed", fork.ID)
	return nil
}

func (a *actor) openingOfFork(hash events.Hash) {
	a.note(events.RunQueued{
		Agent: a.run.Agent, Owner: a.run.Owner, Root: a.run.Root, Input: a.run.Input, ClientKey: a.run.ClientKey, Queue: a.run.Queue, QueuedAt: a.run.CreatedAt,
		Fork: &events.Fork{Run: a.run.ForkOf, Seq: a.run.ForkSeq, Hash: hash, Effects: string(a.run.ForkEffects)},
	})
}

func testForkRow(t *testing.T, h Harness) {
	loop := func(s *ledger.Submission) {
		s.Loop, s.Prompt = mustSeal(t, map[string]string{"strategy": "other"}), mustSeal(t, map[string]string{"text": "T"})
	}
	a := start(t, h, ownedBy("ann"), inSession("s"), loop)
	a.opening()
	a.flush()
	f := forkOf(t, h, a.run.ID, 2)
	got := h.state(t, f.ID)
	if d := cmp.Diff(f, got); d != "" {
		t.Error(d)
	}
	if f.ForkOf != a.run.ID || f.ForkSeq != 2 || f.ForkEffects != ledger.ForkReplay || f.Root != a.run.Root || !f.Parent.IsZero() ||
		f.State != ledger.Queued || f.Owner != "ann" || f.SessionID != "s" || f.Queue != a.run.Queue || f.Agent != a.run.Agent || string(f.Input) != "null" || string(f.Loop) != `{"strategy":"other"}` || string(f.Prompt) != `{"text":"T"}` {
		t.Errorf("fork: %+v", f)
	}
	fs := a.pending()
	if len(fs) != 1 || payload[events.OperatorActed](t, &fs[0]).Verb != "fork" || payload[events.OperatorActed](t, &fs[0]).By != "ann" {
		t.Errorf("the run was told %v", types(fs))
	}
	// A fork of the fork has the same root, and its origin is the fork.
	b := takeFork(t, h, f)
	b.openingOfFork(events.Hash{1})
	b.flush()
	if g := forkOf(t, h, f.ID, 1); g.Root != a.run.Root || g.ForkOf != f.ID {
		t.Errorf("fork of the fork: %+v", g)
	}
}

func testForkTwice(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	note, err := testSeal.JSON("use the other account")
	if err != nil {
		t.Fatal(err)
	}
	ask := ledger.ForkRequest{Run: a.run.ID, Seq: 1, Effects: ledger.ForkAsk, By: "ann", ClientKey: "again-" + a.run.Queue, Note: note}
	first, existed, err := h.Store.Fork(t.Context(), ask)
	if err != nil || existed || string(first.Input) != `"use the other account"` {
		t.Fatalf("first: %s existed %v, %v", first.Input, existed, err)
	}
	second, existed, err := h.Store.Fork(t.Context(), ask)
	if err != nil || !existed || second.ID != first.ID || second.ForkSeq != 1 {
		t.Fatalf("second: existed %v, %v", existed, err)
	}
	if fs := a.pending(); len(fs) != 1 {
		t.Errorf("told %v, want once", types(fs))
	}
	for name, change := range map[string]func(*ledger.ForkRequest){
		"seq":     func(r *ledger.ForkRequest) { r.Seq = 2 },
		"effects": func(r *ledger.ForkRequest) { r.Effects = ledger.ForkReplay },
		"note":    func(r *ledger.ForkRequest) { r.Note = ledger.ForkRequest{}.Note },
	} {
		other := ask
		change(&other)
		if _, _, err := h.Store.Fork(t.Context(), other); !errors.Is(err, ledger.ErrClientKeyConflict) {
			t.Errorf("other %s: %v", name, err)
		}
	}
}

func testForkNeedsEvents(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	for name, c := range map[string]struct {
		change func(*ledger.ForkRequest)
		want   error
	}{
		"behind the end": {func(r *ledger.ForkRequest) { r.Seq = 3 }, ledger.ErrNoSuchEvent},
		"before the 1st": {func(r *ledger.ForkRequest) { r.Seq = 0 }, ledger.ErrNoSuchEvent},
		"unknown run":    {func(r *ledger.ForkRequest) { r.Run = testIDs.Run() }, ledger.ErrNotFound},
		"unknown mode":   {func(r *ledger.ForkRequest) { r.Effects = "maybe" }, nil},
		"nobody":         {func(r *ledger.ForkRequest) { r.By = "" }, nil},
	} {
		r := ledger.ForkRequest{Run: a.run.ID, Seq: 2, Effects: ledger.ForkReplay, By: "ann"}
		c.change(&r)
		_, _, err := h.Store.Fork(t.Context(), r)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An archive with a hole has no history to begin with.
	h.sql(t, `DELETE FROM events WHERE run_id = $1 AND seq = 1`, a.run.ID)
	if _, _, err := h.Store.Fork(t.Context(), ledger.ForkRequest{Run: a.run.ID, Seq: 2, Effects: ledger.ForkReplay, By: "ann"}); !errors.Is(err, ledger.ErrNoSuchEvent) {
		t.Errorf("with a hole: %v", err)
	}
	if n := h.count(t, `SELECT count(*) FROM runs`); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}

func testForkEnded(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.finish(ledger.Finished)
	f := forkOf(t, h, a.run.ID, 3)
	b := takeFork(t, h, f)
	if b.run.ForkOf != a.run.ID || b.run.State != ledger.Running {
		t.Errorf("claimed %+v", b.run)
	}
	if got := h.archived(t, a.run.ID); got != 4 || h.state(t, a.run.ID).State != ledger.Finished {
		t.Errorf("%d events in the ended run, want its 3 and what was told", got)
	}
	h.wantWhole(t, a.run.ID)
}

// testForkReplays: langchain-ai/langgraph#7361, mastra-ai/mastra#21749: going
// on from an earlier point does not do again what was done.
func testForkReplays(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	in := refund()
	v := a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	a.flush()
	b := takeFork(t, h, forkOf(t, h, a.run.ID, 2))
	for name, again := range map[string]ledger.Intent{"the same call": refund(), "a call of a later turn": refund(call(4, 2))} {
		got := b.want(ledger.Replay, again)
		if got.Of != (events.CallRef{Run: a.run.ID, Call: in.Call}) || got.Ref.OpKey != v.Ref.OpKey || got.Result.Output != "done by "+in.Token.String() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	b.want(ledger.Conflict, refund(amount(6)))
	// What the fork did first is handed back to the run it comes from.
	mine := refund(order(8))
	b.want(ledger.Execute, mine)
	b.end(mine.Token, ledger.Applied)
	if got := a.want(ledger.Replay, refund(order(8), call(2, 0))); got.Of.Run != b.run.ID {
		t.Errorf("the run was told %+v", got.Of)
	}
}

func testForkBusy(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	in := refund()
	v := a.want(ledger.Execute, in)
	a.flush()
	b := takeFork(t, h, forkOf(t, h, a.run.ID, 2))
	b.want(ledger.Busy, refund())
	if err := b.park(events.ParkEffectBusy, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	a.end(in.Token, ledger.Applied)
	if fs := pendingOf(t, h, b.run.ID); len(fs) != 1 || fs[0].Type != "run_unparked" {
		t.Errorf("the fork was told %v", types(fs))
	}
}

// ended is a run that ended while its refund was on the way, with kind as recovery.
func ended(t *testing.T, h Harness, kind string, state ledger.State) (*actor, ledger.Verdict) {
	t.Helper()
	a := start(t, h)
	a.opening()
	v := a.want(ledger.Execute, refund(recovery(kind)))
	a.flush()
	if state == ledger.Cancelled {
		if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", ""); err != nil {
			t.Fatal(err)
		}
		a.flush()
	}
	a.finish(state)
	return a, v
}

func testForkAdopts(t *testing.T, h Harness) {
	for _, state := range []ledger.State{ledger.Failed, ledger.Cancelled} {
		for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryProbe, ledger.RecoveryKeyed, ledger.RecoveryFenced} {
			a, v := ended(t, h, kind, state)
			a.crash()
			b := takeFork(t, h, forkOf(t, h, a.run.ID, 2))
			if kind == ledger.RecoveryKeyed || kind == ledger.RecoveryFenced {
				// The provider absorbs the repetition.
				if got := b.want(ledger.Execute, refund(recovery(kind))); got.Ref.OpKey != v.Ref.OpKey || got.Ref.Attempt != 2 || !got.Prior {
					t.Errorf("%s %s: %+v", state, kind, got)
				}
				continue
			}
			h.Advance(callTimeout * 10)
			b.lease = b.beaten(t)
			got := b.want(ledger.InDoubt, refund(recovery(kind)))
			if got.Ref.OpKey != v.Ref.OpKey || got.QuiescentIn > 0 || got.Of.Run != a.run.ID {
				t.Errorf("%s %s: %+v", state, kind, got)
			}
			if e := effect(t, h, v.Ref.OpKey); e.Run != b.run.ID || e.State != events.EffectInDoubt || e.Attempts != 1 {
				t.Errorf("%s %s: effect of run %s, %s, %d attempts", state, kind, e.Run, e.State, e.Attempts)
			}
			b.want(ledger.InDoubt, refund(recovery(kind))) // asked again
			if err := b.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
				t.Fatal(err)
			}
			mustResolve(t, h, v.Ref.OpKey, events.EffectApplied)
			if fs := pendingOf(t, h, b.run.ID); len(fs) != 1 || fs[0].Type != "run_unparked" {
				t.Errorf("%s %s: the fork was told %v", state, kind, types(fs))
			}
			told := types(pendingOf(t, h, a.run.ID))
			if len(told) == 0 || told[len(told)-1] != "effect_resolved" {
				t.Errorf("%s %s: the ended run was told %v", state, kind, told)
			}
			c := takeFork(t, h, b.run)
			if got := c.want(ledger.Replay, refund(recovery(kind))); got.Of.Run != a.run.ID {
				t.Errorf("%s %s: replay %+v", state, kind, got)
			}
		}
	}
}

func testForkWaitsForExecutor(t *testing.T, h Harness) {
	a, v := ended(t, h, ledger.RecoveryProbe, ledger.Failed)
	b := takeFork(t, h, forkOf(t, h, a.run.ID, 2), v.Ref.Token)
	if got := b.want(ledger.Busy, refund(recovery(ledger.RecoveryProbe))); got.QuiescentIn <= 0 {
		t.Errorf("%+v", got)
	}
	if e := effect(t, h, v.Ref.OpKey); e.Run != a.run.ID || e.State != events.EffectStarted {
		t.Errorf("effect: %+v", e)
	}
	// It was still at work, and says how it ended: nobody was in doubt.
	a.end(v.Ref.Token, ledger.Applied)
	b.want(ledger.Replay, refund(recovery(ledger.RecoveryProbe)))
}

func testStrangerDoesNotAdopt(t *testing.T, h Harness) {
	wide := scope(ledger.ScopeTenant, 3600*1e9)
	a := start(t, h)
	a.opening()
	v := a.want(ledger.Execute, refund(wide))
	a.end(v.Ref.Token, ledger.Unclear)
	a.flush()
	a.finish(ledger.Failed)
	h.Advance(callTimeout * 10)
	b := start(t, h)
	b.want(ledger.Busy, refund(wide))
	if e := effect(t, h, v.Ref.OpKey); e.Run != a.run.ID {
		t.Errorf("effect went to %s", e.Run)
	}
}

// hatchet-dev/hatchet#2573
func testCancellingBeginsNothing(t *testing.T, h Harness) {
	a := start(t, h)
	done, refused := refund(), refund(order(8))
	a.want(ledger.Execute, done)
	a.end(done.Token, ledger.Applied)
	a.want(ledger.Execute, refused)
	a.end(refused.Token, ledger.NotApplied)
	a.flush()
	r, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", "wrong customer")
	if err != nil || r.State != ledger.Cancelling || r.CancelBy != "ann" || r.CancelReason != "wrong customer" || r.CancelAt.IsZero() {
		t.Fatalf("cancelling run: %+v, %v", r, err)
	}
	for name, in := range map[string]ledger.Intent{"a first attempt": refund(order(9)), "a further attempt": refund(order(8), call(2, 0))} {
		_, err := a.begin(in)
		wantError(t, err, ledger.ErrFactsPending)
		if n := h.count(t, `SELECT count(*) FROM effect_attempts WHERE token = $1`, in.Token); n != 0 {
			t.Errorf("%s was begun", name)
		}
	}
	a.want(ledger.Replay, refund(call(2, 1))) // what was done is still told
	list, err := h.Store.Summaries(t.Context(), ledger.RunFilter{States: []ledger.State{ledger.Cancelling}})
	if err != nil || len(list) != 1 || list[0].CancelBy != "ann" || list[0].CancelAt.IsZero() || list[0].Worker == "" {
		t.Errorf("runs that are cancelling: %+v, %v", list, err)
	}
}

func testVerifyFork(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	hash := a.prev
	ok := takeFork(t, h, forkOf(t, h, a.run.ID, 2))
	ok.openingOfFork(hash)
	ok.flush()
	h.wantWhole(t, ok.run.ID)

	// A fork that names another history than it says, and one whose row was changed.
	bad := takeFork(t, h, forkOf(t, h, ok.run.ID, 1))
	bad.openingOfFork(events.Hash{9})
	bad.flush()
	moved := takeFork(t, h, forkOf(t, h, ok.run.ID, 1))
	moved.openingOfFork(ok.prev)
	moved.flush()
	h.wantWhole(t, moved.run.ID)
	h.sql(t, `UPDATE runs SET fork_effects = 'simulate' WHERE id = $1`, moved.run.ID)
	for name, run := range map[string]events.RunID{"another hash": bad.run.ID, "another mode": moved.run.ID} {
		n := 0
		for _, f := range h.verify(t, run) {
			if f.Kind == ledger.Tampered {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d findings %+v", name, n, h.verify(t, run))
		}
	}
	h.sql(t, `DELETE FROM events WHERE run_id = $1`, a.run.ID)
	found := false
	for _, f := range h.verify(t, ok.run.ID) {
		found = found || f.Kind == ledger.Incomplete
	}
	if !found {
		t.Errorf("the origin is gone: %+v", h.verify(t, ok.run.ID))
	}
}
