package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func testEndKinds(t *testing.T, h Harness) {
	for _, c := range []struct {
		kind  ledger.OutcomeKind
		state events.EffectState
		fact  events.Type
	}{
		{ledger.Applied, events.EffectApplied, "tool_execution_finished"},
		{ledger.NotApplied, events.EffectNotApplied, "tool_execution_error"},
		{ledger.Unclear, events.EffectInDoubt, "tool_execution_in_doubt"},
	} {
		a := start(t, h)
		in := refund(func(in *ledger.Intent) {
			in.Continue, in.Trace = true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		v := a.want(ledger.Execute, in)
		s := a.end(in.Token, c.kind)
		if s.State != c.state || s.Ref != v.Ref || !s.LeaseHeld || s.Contradicted || s.PossibleDuplicate {
			t.Errorf("%s: %+v", c.kind, s)
		}
		if s.Fact == nil || s.Fact.Type != c.fact || s.Fact.ID != events.DerivedID(in.Token, c.fact) || s.Fact.Trace != in.Trace {
			t.Errorf("%s: fact %+v", c.kind, s.Fact)
		}
		e := effect(t, h, v.Ref.OpKey)
		if e.State != c.state || e.SettledAt.IsZero() != (c.kind == ledger.Unclear) {
			t.Errorf("%s: %+v", c.kind, e)
		}
		switch c.kind {
		case ledger.Applied:
			p := payload[events.ToolExecutionFinished](t, s.Fact)
			if p.Result.Output != s.Result.Output || p.Repeated || p.Of != nil || *p.Ref != v.Ref || p.LatencyMS != 5 || e.SettledBy != "end" {
				t.Errorf("finished: %+v", p)
			}
		case ledger.NotApplied:
			p := payload[events.ToolExecutionError](t, s.Fact)
			if p.Error.Kind != "refused" || p.Result.Status != "failed" || s.Error != p.Error {
				t.Errorf("error: %+v, told %+v", p, s.Error)
			}
		case ledger.Unclear:
			p := payload[events.ToolExecutionInDoubt](t, s.Fact)
			if p.Cause != "timeout" || p.Ref != v.Ref || !p.Deadline.Equal(v.Deadline) || !p.Continue || e.QuiescentIn <= 0 {
				t.Errorf("in doubt: %+v, %+v", p, e)
			}
		}
	}
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	if _, err := h.Store.End(t.Context(), a.lease, nil, ledger.Outcome{Token: in.Token, Kind: "fine"}); err == nil {
		t.Error("an unknown outcome was taken")
	}
}

// RELIABILITY row 8.
func testEndTwice(t *testing.T, h Harness) {
	for _, kind := range []ledger.OutcomeKind{ledger.Applied, ledger.NotApplied, ledger.Unclear} {
		a := start(t, h)
		in := refund()
		a.want(ledger.Execute, in)
		first := a.end(in.Token, kind)
		second, err := h.Store.End(t.Context(), a.lease, nil, outcome(in.Token, kind)) // the answer to COMMIT was lost
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, second); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
		if kind != ledger.Unclear { // what is recorded stands, whatever is said now
			if s := a.end(in.Token, ledger.Unclear); s.State != first.State {
				t.Errorf("%s, then unclear: %s", kind, s.State)
			}
			if s := a.end(in.Token, ledger.NotApplied); s.State != first.State || s.Contradicted {
				t.Errorf("%s, then not applied: %s", kind, s.State)
			}
		}
		before, err := h.Store.Attempts(t.Context(), first.Ref.OpKey)
		if err != nil {
			t.Fatal(err)
		}
		h.Advance(time.Second)
		a.end(in.Token, kind)
		if after, err := h.Store.Attempts(t.Context(), first.Ref.OpKey); err != nil || !cmp.Equal(before, after) {
			t.Errorf("%s: the attempt changed: %s %v", kind, cmp.Diff(before, after), err)
		}
		a.flush() // recorded: nothing is left to append
		if s := a.end(in.Token, kind); s.Fact != nil || s.State != first.State {
			t.Errorf("%s in the history: %+v", kind, s)
		}
		if fs := a.pending(); len(fs) != 0 {
			t.Errorf("%s: %v came back", kind, types(fs))
		}
	}
}

func testLateAfterUnclear(t *testing.T, h Harness) {
	for kind, state := range map[ledger.OutcomeKind]events.EffectState{ledger.Applied: events.EffectApplied, ledger.NotApplied: events.EffectNotApplied} {
		a := start(t, h)
		in := refund()
		a.want(ledger.Execute, in)
		a.end(in.Token, ledger.Unclear)
		s := a.end(in.Token, kind) // the same executor hears of it after its time-out
		if s.State != state {
			t.Errorf("%s: %s", kind, s.State)
		}
		if p := payload[events.EffectResolved](t, s.Fact); p.State != state || p.By != "late_evidence" {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

func testEndUnknown(t *testing.T, h Harness) {
	a := start(t, h)
	_, err := h.Store.End(t.Context(), a.lease, nil, outcome(testIDs.Event(), ledger.Applied))
	wantError(t, err, ledger.ErrNotFound)
}

func testEndFenced(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	v := a.want(ledger.Execute, in)
	a.crash() // nobody has taken the run, but the lease is over
	a.note(events.TurnStarted{Turn: 2})
	s := a.end(in.Token, ledger.Applied)
	if s.LeaseHeld || s.State != events.EffectApplied || s.Fact == nil {
		t.Errorf("settlement: %+v", s)
	}
	if h.archived(t, a.run.ID) != 0 {
		t.Error("the prefix of a lost lease is in the archive")
	}
	b := take(t, h, a.run)
	b.want(ledger.Replay, refund())
	if e := effect(t, h, v.Ref.OpKey); e.SettledBy != "end" {
		t.Errorf("settled by %s", e.SettledBy)
	}
}

func testEndBadPrefix(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.seq += 5 // a hole: the archive cannot take what follows
	a.note(events.TurnStarted{Turn: 2})
	s := a.end(in.Token, ledger.Applied)
	if s.LeaseHeld || s.State != events.EffectApplied {
		t.Errorf("settlement: %+v", s)
	}
}

func testLateApplied(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	v := a.want(ledger.Execute, in)
	b := a.successor()
	b.want(ledger.InDoubt, refund())
	s := a.end(in.Token, ledger.Applied)
	if s.State != events.EffectApplied || s.LeaseHeld || s.Contradicted {
		t.Errorf("settlement: %+v", s)
	}
	p := payload[events.EffectResolved](t, s.Fact)
	if p.By != "late_evidence" || p.State != events.EffectApplied || p.Ref != v.Ref || p.Result.Output == "" {
		t.Errorf("fact: %+v", p)
	}
	if e := effect(t, h, v.Ref.OpKey); e.SettledBy != "late_evidence" {
		t.Errorf("settled by %s", e.SettledBy)
	}
	b.want(ledger.Replay, refund())
	// A late refusal of the only attempt settles too.
	c := start(t, h)
	in = refund()
	c.want(ledger.Execute, in)
	d := c.successor()
	if s := c.end(in.Token, ledger.NotApplied); s.State != events.EffectNotApplied {
		t.Errorf("late not applied: %+v", s)
	}
	d.want(ledger.Execute, refund())
}

// RELIABILITY row 17.
func testErrorAfterUnclear(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryKeyed, ledger.RecoveryFenced} {
		a := start(t, h)
		a.want(ledger.Execute, refund(recovery(kind)))
		b := a.successor()
		in := refund(recovery(kind))
		v := b.want(ledger.Execute, in)
		s := b.end(in.Token, ledger.NotApplied) // 409: it may be our own doing
		if s.State != events.EffectInDoubt {
			t.Errorf("%s: state = %s", kind, s.State)
		}
		payload[events.ToolExecutionInDoubt](t, s.Fact)
		if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectInDoubt || e.Evidence == "" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

func testLateNotApplied(t *testing.T, h Harness) {
	fenced := recovery(ledger.RecoveryFenced)
	a := start(t, h)
	first := refund(fenced)
	a.want(ledger.Execute, first)
	b := a.successor()
	second := refund(fenced)
	b.want(ledger.Execute, second)
	if s := a.end(first.Token, ledger.NotApplied); s.State != events.EffectStarted {
		t.Errorf("while another attempt runs: %s", s.State)
	}
	if s := b.end(second.Token, ledger.NotApplied); s.State != events.EffectNotApplied {
		t.Errorf("both are definite: %s", s.State)
	}
	// The other order.
	c := start(t, h)
	first = refund(fenced)
	c.want(ledger.Execute, first)
	d := c.successor()
	second = refund(fenced)
	d.want(ledger.Execute, second)
	if s := d.end(second.Token, ledger.NotApplied); s.State != events.EffectInDoubt {
		t.Errorf("the first is not known: %s", s.State)
	}
	if s := c.end(first.Token, ledger.NotApplied); s.State != events.EffectNotApplied {
		t.Errorf("now it is: %s", s.State)
	}
	// Unclear news of an old attempt does not stop the running one.
	e := start(t, h)
	first = refund(fenced)
	e.want(ledger.Execute, first)
	f := e.successor()
	second = refund(fenced)
	f.want(ledger.Execute, second)
	if s := e.end(first.Token, ledger.Unclear); s.State != events.EffectStarted || s.Fact != nil {
		t.Errorf("unclear news: %+v", s)
	}
	if s := f.end(second.Token, ledger.Applied); s.State != events.EffectApplied {
		t.Errorf("state = %s", s.State)
	}
}

func testOtherCallsAreTold(t *testing.T, h Harness) {
	fenced := recovery(ledger.RecoveryFenced)
	// The model went on and asked again: the first call learns what the second found out.
	a := start(t, h)
	first, second := refund(fenced), refund(fenced, call(2, 0))
	a.want(ledger.Execute, first)
	a.end(first.Token, ledger.Unclear)
	a.want(ledger.Execute, second)
	a.flush()
	s := a.end(second.Token, ledger.Applied)
	if p := payload[events.ToolExecutionFinished](t, s.Fact); p.Call != second.Call {
		t.Errorf("second: %+v", p)
	}
	p := payload[events.EffectResolved](t, find(t, a.pending(), "effect_resolved"))
	if p.Call != first.Call || p.State != events.EffectApplied || p.By != "late_evidence" || !cmp.Equal(p.Result, s.Result) {
		t.Errorf("first: %+v", p)
	}
	if s := a.end(first.Token, ledger.Applied); s.Fact != nil && s.Fact.Type == "tool_execution_finished" {
		t.Errorf("a second outcome for the first call: %+v", s.Fact)
	}
	// One call, two attempts: the call has one outcome.
	b := start(t, h)
	first, second = refund(fenced), refund(fenced)
	b.want(ledger.Execute, first)
	c := b.successor()
	c.want(ledger.Execute, second)
	s = b.end(first.Token, ledger.Applied)
	payload[events.ToolExecutionFinished](t, s.Fact)
	if s := c.end(second.Token, ledger.Applied); s.Fact != nil || s.State != events.EffectApplied {
		t.Errorf("a second outcome: %+v", s)
	}
	// A person's resolution tells every call, too.
	d := start(t, h)
	first, second = refund(fenced), refund(fenced, call(2, 0))
	v := d.want(ledger.Execute, first)
	d.end(first.Token, ledger.Unclear)
	d.want(ledger.Execute, second)
	d.end(second.Token, ledger.Unclear)
	d.flush()
	mustResolve(t, h, v.Ref.OpKey, events.EffectApplied)
	calls := map[events.CallID]int{}
	for _, f := range d.pending() {
		calls[payload[events.EffectResolved](t, &f).Call]++
	}
	if want := (map[events.CallID]int{first.Call: 1, second.Call: 1}); !cmp.Equal(calls, want) {
		t.Errorf("told: %v", calls)
	}
}

func testEndOfEndedRun(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	a.flush()
	a.note(events.RunFailed{StoppedBy: events.StoppedByError})
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError}); err != nil {
		t.Fatal(err)
	}
	a.prefix = nil
	s := a.end(in.Token, ledger.Applied)
	if s.State != events.EffectApplied || s.LeaseHeld || s.Fact == nil {
		t.Errorf("settlement: %+v", s)
	}
	b := take(t, h, a.run) // a settle claim
	b.flush()
	if fs := b.pending(); len(fs) != 0 {
		t.Errorf("pending: %v", types(fs))
	}
}

// pydantic/pydantic-ai#7110
func testLargeResult(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	out := outcome(in.Token, ledger.Applied)
	out.Result.Output = strings.Repeat("é\x00", 200_000)
	s, err := h.Store.End(t.Context(), a.lease, a.prefix, out)
	if err != nil {
		t.Fatal(err)
	}
	p := payload[events.ToolExecutionFinished](t, s.Fact)
	if p.Result.Truncated == nil || p.Result.Truncated.Of != len(out.Result.Output) || p.Result.Truncated.Kept != len(p.Result.Output) || p.Result.Output == "" {
		t.Errorf("truncated: %+v, %d bytes kept", p.Result.Truncated, len(p.Result.Output))
	}
	if !cmp.Equal(p.Result, s.Result) {
		t.Error("the run and the caller are told different results")
	}
}

// One that an event holds stays as it is, byte for byte: in the record, for the
// caller, and when it is replayed.
func testResultThatFits(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	a.want(ledger.Execute, in)
	out := outcome(in.Token, ledger.Applied)
	out.Result.Output = strings.Repeat("0123 <&> \"é\" ", events.MaxOutput/32)
	out.Result.Sources = []events.Source{{Title: "a", URL: "https://example.com/"}}
	s, err := h.Store.End(t.Context(), a.lease, a.prefix, out)
	if err != nil {
		t.Fatal(err)
	}
	if p := payload[events.ToolExecutionFinished](t, s.Fact); !cmp.Equal(p.Result, out.Result) || !cmp.Equal(s.Result, out.Result) {
		t.Errorf("%d bytes became %d in the record, %d for the caller", len(out.Result.Output), len(p.Result.Output), len(s.Result.Output))
	}
	a.absorb(*s.Fact)
	if v := a.want(ledger.Replay, refund(call(2, 0))); !cmp.Equal(v.Result, out.Result) {
		t.Errorf("%d bytes became %d in a replay", len(out.Result.Output), len(v.Result.Output))
	}
}
