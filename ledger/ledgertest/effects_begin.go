package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func wantError(t tb, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

func testBegun(t *testing.T, h Harness) {
	a := start(t, h)
	a.note(events.TurnStarted{Turn: 1})
	in := refund()
	v := a.want(ledger.Execute, in)
	base := ledger.BaseKey("acme", ledger.ScopeRun, a.run.Root.String(), "refund", in.Identity)
	ref := events.EffectRef{OpKey: ledger.OpKey(base, 1), Generation: 1, Attempt: 1, Token: in.Token, Recovery: "none"}
	if d := cmp.Diff(ref, v.Ref); d != "" {
		t.Errorf("ref: %s", d)
	}
	if v.Prior || v.Remaining <= 0 || v.Remaining > callTimeout {
		t.Errorf("prior %v, remaining %v", v.Prior, v.Remaining)
	}
	if id := events.DerivedID(in.Token, "tool_execution_started"); v.Fact.ID != id {
		t.Errorf("fact id = %s, want %s", v.Fact.ID, id)
	}
	p := payload[events.ToolExecutionStarted](t, v.Fact)
	want := events.ToolExecutionStarted{
		Call: in.Call, Attempt: 1, Tool: "refund", Effect: "destructive", Arguments: in.Arguments, Ref: &ref, At: p.At, Deadline: v.Deadline,
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("started: %s", d)
	}
	// Committed before anything ran: whoever comes next finds it.
	e := effect(t, h, v.Ref.OpKey)
	if e.State != events.EffectStarted || e.Run != a.run.ID || e.Token != in.Token || !e.Deadline.Equal(v.Deadline) {
		t.Errorf("effect: %+v", e)
	}
	if got := types(a.pending()); !cmp.Equal(got, []events.Type{"tool_execution_started"}) {
		t.Errorf("pending: %v", got)
	}
	if got := h.archived(t, a.run.ID); got != 1 {
		t.Errorf("%d events in the archive, want the prefix of 1", got)
	}
}

// RELIABILITY row 3.
func testSameToken(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	first := a.want(ledger.Execute, in)
	again := a.want(ledger.Execute, in) // the answer to COMMIT was lost
	if first.Ref != again.Ref || !first.Deadline.Equal(again.Deadline) || first.Fact.ID != again.Fact.ID || string(first.Fact.Data) != string(again.Fact.Data) {
		t.Errorf("again: %+v, first %+v", again, first)
	}
	if as, err := h.Store.Attempts(t.Context(), first.Ref.OpKey); err != nil || len(as) != 1 {
		t.Errorf("%d attempts, %v", len(as), err)
	}
	a.flush() // the started event is in the archive now
	a.want(ledger.Execute, in)
	if fs := a.pending(); len(fs) != 0 {
		t.Errorf("the fact came back: %v", types(fs))
	}
	b := a.successor()
	if v, err := b.begin(in); err != nil || v.Kind == ledger.Execute {
		t.Errorf("under the next lease: %v %v", verdictName(v.Kind), err)
	}
	_, err := a.begin(in)
	wantError(t, err, ledger.ErrFenced)
	// The same worker claims again and names the attempt as its own: it may run.
	c := start(t, h)
	own := refund()
	c.want(ledger.Execute, own)
	c.crash()
	c = take(t, h, c.run, own.Token)
	c.want(ledger.InDoubt, own)
	other := start(t, h)
	if v, err := other.begin(in); err == nil {
		t.Errorf("another run with the token: %v", verdictName(v.Kind))
	}
}

func testSameTokenEnded(t *testing.T, h Harness) {
	for kind, want := range map[ledger.OutcomeKind]ledger.VerdictKind{ledger.Applied: ledger.Replay, ledger.Unclear: ledger.InDoubt} {
		a := start(t, h)
		in := refund(recovery(ledger.RecoveryFenced))
		a.want(ledger.Execute, in)
		a.end(in.Token, kind)
		a.want(want, in)
	}
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.NotApplied)
	if v, err := a.begin(in); err == nil {
		t.Errorf("a token that ended without effect: %s", verdictName(v.Kind))
	}
}

// dbos-inc/dbos-transact-py#818
func testFencedBegin(t *testing.T, h Harness) {
	a := start(t, h)
	b := a.successor()
	a.note(events.TurnStarted{Turn: 1})
	v, err := a.begin(refund())
	wantError(t, err, ledger.ErrFenced)
	if v.Kind != 0 || h.archived(t, a.run.ID) != 0 {
		t.Errorf("verdict %s, %d events", verdictName(v.Kind), h.archived(t, a.run.ID))
	}
	if es, _ := h.Store.Effects(t.Context(), ledger.EffectFilter{Run: a.run.ID}); len(es) != 0 {
		t.Errorf("effects: %+v", es)
	}
	b.crash() // lapsed and nobody took it: still not ours
	_, err = b.begin(refund())
	wantError(t, err, ledger.ErrFenced)
}

func testShortLease(t *testing.T, h Harness) {
	a := start(t, h)
	h.Advance(leaseTTL*2/3 + time.Second)
	a.note(events.TurnStarted{Turn: 1})
	_, err := a.begin(refund())
	wantError(t, err, ledger.ErrLeaseTooShort)
	if n := h.archived(t, a.run.ID); n != 1 {
		t.Errorf("%d events in the archive, want the prefix", n)
	}
	a.prefix = nil
	if bs, err := h.Store.Heartbeat(t.Context(), a.worker, []ledger.Lease{a.lease}); err != nil || !bs[0].Held {
		t.Fatalf("heartbeat: %+v %v", bs, err)
	}
	a.want(ledger.Execute, refund())
}

func testEndedRun(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.flush()
	a.note(events.RunFailed{StoppedBy: events.StoppedByError})
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError}); err != nil {
		t.Fatal(err)
	}
	a.end(in.Token, ledger.Applied) // a fact, and so a settle claim
	b := take(t, h, a.run)
	v, err := b.begin(refund(call(2, 0), order(8)))
	wantError(t, err, ledger.ErrEnded)
	if v.Kind == ledger.Execute {
		t.Error("an ended run executes")
	}
}

// hatchet-dev/hatchet#552
// RELIABILITY rows 4, 5.
func testOpaqueTakeover(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryProbe} {
		a := start(t, h)
		in := refund(recovery(kind))
		first := a.want(ledger.Execute, in)
		b := a.successor()
		v := b.want(ledger.InDoubt, refund(recovery(kind)))
		if v.Ref != first.Ref || v.QuiescentIn <= 0 && first.Remaining > leaseTTL {
			t.Errorf("in doubt: %+v", v)
		}
		v = b.want(ledger.InDoubt, refund(recovery(kind), amount(6))) // whatever the arguments
		if v.Of != (events.CallRef{Run: a.run.ID, Call: in.Call}) {
			t.Errorf("of: %+v", v.Of)
		}
		p := payload[events.ToolExecutionInDoubt](t, find(t, b.facts, "tool_execution_in_doubt"))
		if p.Cause != "takeover" || p.Ref != first.Ref || !p.Deadline.Equal(first.Deadline) {
			t.Errorf("fact: %+v", p)
		}
	}
	// A live worker that claims again names the attempt as its own: then it is
	// still running, but whoever asks anew does not know how it goes.
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.crash()
	b := take(t, h, a.run, in.Token)
	key := b.want(ledger.InDoubt, refund()).Ref.OpKey
	if e := effect(t, h, key); e.State != events.EffectInDoubt {
		t.Errorf("state = %s", e.State)
	}
	if s := b.end(in.Token, ledger.Applied); s.State != events.EffectApplied {
		t.Errorf("its own end: %+v", s)
	}
}

func find(t tb, fs []events.Fact, typ events.Type) *events.Fact {
	t.Helper()
	for i := range fs {
		if fs[i].Type == typ {
			return &fs[i]
		}
	}
	t.Fatalf("no fact %s among %v", typ, types(fs))
	return nil
}

func testNeverAges(t *testing.T, h Harness) {
	a := start(t, h, inSession("s"))
	in := refund(scope(ledger.ScopeSession, time.Minute))
	v := a.want(ledger.Execute, in)
	h.Advance(365 * 24 * time.Hour)
	b := start(t, h, inSession("s"))
	b.want(ledger.Busy, refund(scope(ledger.ScopeSession, time.Minute)))
	if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectStarted {
		t.Errorf("state = %s", e.State)
	}
	c := take(t, h, a.run)
	c.want(ledger.InDoubt, refund(scope(ledger.ScopeSession, time.Minute)))
	h.Advance(365 * 24 * time.Hour)
	take(t, h, a.run).want(ledger.InDoubt, refund(scope(ledger.ScopeSession, time.Minute)))
	take(t, h, b.run).want(ledger.Busy, refund(scope(ledger.ScopeSession, time.Minute)))
}

func testOwnOutcome(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	first := a.want(ledger.Execute, in)
	s := a.end(in.Token, ledger.Applied)
	b := a.successor()
	v := b.want(ledger.Replay, refund())
	own := events.CallRef{Run: a.run.ID, Call: in.Call}
	if v.Of != own || v.Ref != first.Ref || !cmp.Equal(v.Result, s.Result) || v.OfEnded.IsZero() || !v.Redacted || v.Fact != nil {
		t.Errorf("replay: %+v", v)
	}
	b.want(ledger.Replay, refund(amount(6))) // its own, whatever it asks
}

// RELIABILITY row 19.
func testReplayAndConflict(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	v := a.want(ledger.Replay, refund(call(2, 1)))
	if v.Of.Call != in.Call {
		t.Errorf("of: %+v", v.Of)
	}
	v = a.want(ledger.Conflict, refund(call(3, 0), amount(6)))
	if v.Of.Call != in.Call || string(v.OfArguments) != string(in.Arguments) || v.Result.Status != "completed" {
		t.Errorf("conflict: %+v", v)
	}
	a.want(ledger.Execute, refund(call(3, 1), order(8))) // another identity
}

func testReplayAcrossRuns(t *testing.T, h Harness) {
	a := start(t, h, inSession("s"))
	in := refund(scope(ledger.ScopeSession, 0), call(3, 2))
	a.want(ledger.Execute, in)
	s := a.end(in.Token, ledger.Applied)
	b := start(t, h, inSession("s"))
	v := b.want(ledger.Replay, refund(scope(ledger.ScopeSession, 0)))
	if v.Of != (events.CallRef{Run: a.run.ID, Call: in.Call}) || !cmp.Equal(v.Result, s.Result) {
		t.Errorf("replay: %+v", v)
	}
	if fs := b.pending(); len(fs) != 0 {
		t.Errorf("a replay left facts: %v", types(fs))
	}
	b.want(ledger.Conflict, refund(scope(ledger.ScopeSession, 0), amount(6)))
}

func testNotAppliedBeginsAgain(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	first := a.want(ledger.Execute, in)
	a.end(in.Token, ledger.NotApplied)
	second := refund(call(2, 0), amount(6))
	v := a.want(ledger.Execute, second)
	if v.Ref.OpKey != first.Ref.OpKey || v.Ref.Attempt != 2 || v.Prior {
		t.Errorf("second: %+v", v)
	}
	a.end(second.Token, ledger.Applied)
	a.want(ledger.Conflict, refund(call(3, 0)))
	a.want(ledger.Replay, refund(call(3, 0), amount(6)))
	// What is known to have done nothing is not waited for.
	long := refund(order(8), timeout(time.Hour))
	a.want(ledger.Execute, long)
	a.end(long.Token, ledger.NotApplied)
	short := refund(order(8), timeout(time.Minute))
	a.want(ledger.Execute, short)
	a.end(short.Token, ledger.Unclear)
	if v := a.want(ledger.InDoubt, refund(order(8))); v.QuiescentIn > 30*time.Minute {
		t.Errorf("quiescent in %v", v.QuiescentIn)
	}
}

func testBusy(t *testing.T, h Harness) {
	session := scope(ledger.ScopeSession, 0)
	a := start(t, h, inSession("s"))
	in := refund(session)
	first := a.want(ledger.Execute, in)
	b := start(t, h, inSession("s"))
	v := b.want(ledger.Busy, refund(session, amount(6)))
	if v.Ref.OpKey != first.Ref.OpKey || v.QuiescentIn <= 0 || v.Of.Run != a.run.ID {
		t.Errorf("busy: %+v", v)
	}
	a.end(in.Token, ledger.Unclear)
	b.want(ledger.Busy, refund(session))
	for _, kind := range []string{ledger.RecoveryKeyed, ledger.RecoveryFenced} { // only the run itself repeats
		x := refund(session, recovery(kind), order(9+len(kind)))
		a.want(ledger.Execute, x)
		x.Token = testIDs.Event()
		b.want(ledger.Busy, x)
	}
}

func testAncestor(t *testing.T, h Harness) {
	grand := start(t, h)
	in := refund()
	grand.want(ledger.Execute, in)
	parent := start(t, h, childOf(grand.run))
	child := start(t, h, childOf(parent.run))
	child.note(events.TurnStarted{Turn: 1})
	_, err := child.begin(refund())
	wantError(t, err, ledger.ErrWouldWaitOnAncestor)
	if h.archived(t, child.run.ID) != 1 {
		t.Error("the refused barrier did not keep its prefix")
	}
	child.prefix = nil
	grand.end(in.Token, ledger.Applied)
	child.want(ledger.Replay, refund())
	other := refund(order(8))
	child.want(ledger.Execute, other)
	grand.want(ledger.Busy, refund(order(8))) // the ancestor may wait for its child
}

func testWindowMissing(t *testing.T, h Harness) {
	a := start(t, h, ownedBy("eva"))
	a.note(events.TurnStarted{Turn: 1})
	for _, s := range []ledger.Scope{ledger.ScopeOwner, ledger.ScopeTenant} {
		_, err := a.begin(refund(scope(s, 0)))
		wantError(t, err, ledger.ErrWindowMissing)
	}
	if h.archived(t, a.run.ID) != 1 {
		t.Error("the refused barrier did not keep its prefix")
	}
}

func testMalformedIntents(t *testing.T, h Harness) {
	a := start(t, h)
	for name, change := range map[string]func(*ledger.Intent){
		"no token":         func(in *ledger.Intent) { in.Token = events.ID{} },
		"no tool":          func(in *ledger.Intent) { in.Tool = "" },
		"no turn":          func(in *ledger.Intent) { in.Call.Turn = 0 },
		"no identity":      func(in *ledger.Intent) { in.Identity = nil },
		"no arguments":     func(in *ledger.Intent) { in.Arguments = nil },
		"no timeout":       func(in *ledger.Intent) { in.Timeout = 0 },
		"unknown recovery": func(in *ledger.Intent) { in.Recovery.Kind = "maybe" },
		"keyed for ever":   func(in *ledger.Intent) { in.Recovery.Kind = ledger.RecoveryKeyed },
		"unknown scope":    func(in *ledger.Intent) { in.Scope = "world" },
	} {
		if v, err := a.begin(refund(change)); err == nil {
			t.Errorf("%s: %s", name, verdictName(v.Kind))
		}
	}
	v := a.want(ledger.Execute, refund(func(in *ledger.Intent) { in.Effect, in.Scope, in.Recovery.Kind, in.CallAttempt = "", "", "", 0 }))
	if p := payload[events.ToolExecutionStarted](t, v.Fact); p.Effect != "destructive" || p.Attempt != 1 || v.Ref.Recovery != "none" {
		t.Errorf("unset is destructive, opaque and a first attempt: %+v", p)
	}
}
