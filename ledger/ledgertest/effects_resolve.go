package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func resolve(t tb, h Harness, key events.Hash, state events.EffectState, opts ...func(*ledger.Resolution)) (ledger.Settlement, error) {
	t.Helper()
	r := ledger.Resolution{OpKey: key, State: state, By: "eva"}
	for _, o := range opts {
		o(&r)
	}
	return h.Store.Resolve(t.Context(), r)
}

func force(r *ledger.Resolution) { r.Force = true }

func byProbe(l ledger.Lease) func(*ledger.Resolution) {
	return func(r *ledger.Resolution) { r.By, r.Lease = "probe", &l }
}

func mustResolve(t tb, h Harness, key events.Hash, state events.EffectState, opts ...func(*ledger.Resolution)) ledger.Settlement {
	t.Helper()
	s, err := resolve(t, h, key, state, opts...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// quiet lets deadline and grace of every attempt pass.
func quiet(t tb, h Harness, key events.Hash) {
	t.Helper()
	if e := effect(t, h, key); e.QuiescentIn > 0 {
		h.Advance(e.QuiescentIn)
	}
}

// doubtful is an effect in doubt, whose attempt has come back without an answer.
func doubtful(t *testing.T, h Harness, opts ...func(*ledger.Intent)) (*actor, ledger.Verdict) {
	t.Helper()
	a := start(t, h)
	in := refund(opts...)
	v := a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Unclear)
	return a, v
}

var decisions = []events.EffectState{events.EffectApplied, events.EffectNotApplied, events.EffectAbandoned}

func testResolveStates(t *testing.T, h Harness) {
	_, err := resolve(t, h, events.Hash{1}, events.EffectApplied)
	wantError(t, err, ledger.ErrNotFound)
	a := start(t, h)
	in := refund()
	v := a.want(ledger.Execute, in)
	_, err = resolve(t, h, v.Ref.OpKey, events.EffectApplied, force)
	wantError(t, err, ledger.ErrNotInDoubt)
	if !strings.Contains(err.Error(), "started") {
		t.Errorf("the error does not name the state: %v", err)
	}
	a.end(in.Token, ledger.Applied)
	_, err = resolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	wantError(t, err, ledger.ErrNotInDoubt)
	_, v = doubtful(t, h)
	for _, s := range []events.EffectState{events.EffectStarted, events.EffectInDoubt, ""} {
		if _, err := resolve(t, h, v.Ref.OpKey, s, force); err == nil {
			t.Errorf("resolved as %q", s)
		}
	}
	if _, err := resolve(t, h, v.Ref.OpKey, events.EffectApplied, func(r *ledger.Resolution) { r.By = "" }); err == nil {
		t.Error("resolved by nobody")
	}
}

// RELIABILITY row 14.
func testResolveQuiescence(t *testing.T, h Harness) {
	for _, state := range []events.EffectState{events.EffectNotApplied, events.EffectAbandoned} {
		a := start(t, h)
		v := a.want(ledger.Execute, refund(timeout(time.Minute)))
		b := a.successor()
		w := b.want(ledger.InDoubt, refund())
		for _, opts := range [][]func(*ledger.Resolution){nil, {byProbe(b.lease)}} {
			_, err := resolve(t, h, v.Ref.OpKey, state, opts...)
			wantError(t, err, ledger.ErrNotQuiescent)
		}
		h.Advance(w.QuiescentIn - 5*time.Second) // the deadline alone is not enough
		_, err := resolve(t, h, v.Ref.OpKey, state)
		wantError(t, err, ledger.ErrNotQuiescent)
		h.Advance(6 * time.Second)
		take(t, h, a.run) // a live lease, but not the attempt's
		if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectInDoubt || e.QuiescentIn > 0 {
			t.Errorf("before: %+v", e)
		}
		if s := mustResolve(t, h, v.Ref.OpKey, state); s.State != state {
			t.Errorf("state = %s", s.State)
		}
		e := effect(t, h, v.Ref.OpKey)
		if e.State != state || e.SettledBy != "eva" || e.Forced {
			t.Errorf("after: %+v", e)
		}
	}
}

func testResolveLiveLease(t *testing.T, h Harness) {
	// In doubt because the same epoch asked again, and its executor has not come back.
	a := start(t, h)
	in := refund(timeout(time.Second))
	v := a.want(ledger.Execute, in)
	a.want(ledger.InDoubt, refund())
	keep := func(d time.Duration) {
		for ; d > 0; d -= 5 * time.Second {
			h.Advance(5 * time.Second)
			if bs, err := h.Store.Heartbeat(t.Context(), a.worker, []ledger.Lease{a.lease}); err != nil || !bs[0].Held {
				t.Fatalf("heartbeat: %+v %v", bs, err)
			}
		}
	}
	keep(effect(t, h, v.Ref.OpKey).QuiescentIn)
	_, err := resolve(t, h, v.Ref.OpKey, events.EffectNotApplied)
	wantError(t, err, ledger.ErrNotQuiescent)
	a.end(in.Token, ledger.Unclear) // now its executor is gone
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, byProbe(a.lease))

	// A lapsed lease is dead too.
	b := start(t, h)
	v = b.want(ledger.Execute, refund(timeout(time.Second)))
	b.want(ledger.InDoubt, refund())
	h.Advance(effect(t, h, v.Ref.OpKey).QuiescentIn)
	b.crash()
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied)
}

func testResolveAppliedAtOnce(t *testing.T, h Harness) {
	a, v := doubtful(t, h)
	s := mustResolve(t, h, v.Ref.OpKey, events.EffectApplied, byProbe(a.lease))
	if s.State != events.EffectApplied || !s.LeaseHeld || s.Result.Status != "completed" {
		t.Errorf("settlement: %+v", s)
	}
	a.want(ledger.Replay, refund())
}

func testResolveForce(t *testing.T, h Harness) {
	for _, state := range []events.EffectState{events.EffectNotApplied, events.EffectAbandoned} {
		_, v := doubtful(t, h)
		s := mustResolve(t, h, v.Ref.OpKey, state, force)
		p := payload[events.EffectResolved](t, s.Fact)
		if !p.Forced || p.State != state || !effect(t, h, v.Ref.OpKey).Forced {
			t.Errorf("forced: %+v", p)
		}
	}
	// The attempt may act yet: an error of the next one proves nothing.
	a, v := doubtful(t, h)
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	in := refund()
	if w := a.want(ledger.Execute, in); !w.Prior {
		t.Error("the forced attempt is forgotten")
	}
	if s := a.end(in.Token, ledger.NotApplied); s.State != events.EffectInDoubt {
		t.Errorf("state = %s", s.State)
	}
}

func testResolveFencedProbe(t *testing.T, h Harness) {
	a, v := doubtful(t, h)
	b := a.successor()
	quiet(t, h, v.Ref.OpKey)
	_, err := resolve(t, h, v.Ref.OpKey, events.EffectNotApplied, byProbe(a.lease))
	wantError(t, err, ledger.ErrFenced)
	c := tryTake(t, h, b.run)
	if c == nil {
		c = b
	}
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, byProbe(c.lease))
}

// A secret that stands where the cut falls is whole when it is looked for: half of
// one is not found.
func testResolveCutSecret(t *testing.T, h Harness) {
	half := "AK" + "IAQZ7WRT2M"
	secret := half + "KLX4VBN5"
	before := func(most int) string { return strings.Repeat("a b ", most/4-3) + secret + strings.Repeat(" c", most) }
	_, v := doubtful(t, h)
	sources := []events.Source{{Title: "of " + secret, URL: "https://example.com/?q=" + secret}}
	s := mustResolve(t, h, v.Ref.OpKey, events.EffectApplied, func(r *ledger.Resolution) {
		r.Result = events.ToolResult{Status: "completed", Output: before(events.MaxOutput), Sources: sources}
	})
	told := payload[events.EffectResolved](t, s.Fact).Result
	if told.Truncated == nil || strings.Contains(told.Output, half) || len(told.Sources) != 1 ||
		strings.Contains(told.Sources[0].Title+told.Sources[0].URL, half) || !strings.Contains(sources[0].Title, secret) {
		t.Errorf("truncated %+v, the output ends %q, sources %+v", told.Truncated, told.Output[max(0, len(told.Output)-40):], told.Sources)
	}
	if !cmp.Equal(told, s.Result) {
		t.Error("the run and the caller are told different results")
	}
	_, v = doubtful(t, h)
	quiet(t, h, v.Ref.OpKey)
	s = mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, func(r *ledger.Resolution) {
		r.Result = events.ToolResult{Status: "failed", Error: before(24 << 10)}
	})
	if told := payload[events.EffectResolved](t, s.Fact).Result; len(told.Error) > 24<<10 || strings.Contains(told.Error, half) {
		t.Errorf("%d bytes, the error ends %q", len(told.Error), told.Error[max(0, len(told.Error)-40):])
	}
}

func testResolveTells(t *testing.T, h Harness) {
	for _, state := range decisions {
		for _, said := range []events.ToolResult{{}, {Status: "completed", Output: "seen in the bank's books"}} {
			a, v := doubtful(t, h)
			quiet(t, h, v.Ref.OpKey)
			s := mustResolve(t, h, v.Ref.OpKey, state, func(r *ledger.Resolution) { r.Result, r.Note = said, "asked the bank" })
			p := payload[events.EffectResolved](t, s.Fact)
			if p.By != "eva" || p.Note != "asked the bank" || p.State != state || p.Ref != v.Ref || p.Call != (events.CallID{Turn: 1}) || p.Forced || !cmp.Equal(p.Result, s.Result) {
				t.Errorf("%s: %+v", state, p)
			}
			if said.Status != "" && !cmp.Equal(p.Result, said) || p.Result.Status == "" || p.Result.Output+p.Result.Error == "" {
				t.Errorf("%s: the model is told %+v", state, p.Result)
			}
			if got := types(a.pending()); !cmp.Equal(got[len(got)-1], events.Type("effect_resolved")) {
				t.Errorf("pending: %v", got)
			}
		}
	}
}

func testAbandoned(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryKeyed, ledger.RecoveryFenced} {
		a, v := doubtful(t, h, recovery(kind))
		quiet(t, h, v.Ref.OpKey)
		s := mustResolve(t, h, v.Ref.OpKey, events.EffectAbandoned)
		a = take(t, h, a.run)
		for _, in := range []ledger.Intent{refund(recovery(kind)), refund(recovery(kind), call(2, 0)), refund(recovery(kind), amount(6))} {
			if w := a.want(ledger.GivenUp, in); !cmp.Equal(w.Result, s.Result) {
				t.Errorf("told %+v", w.Result)
			}
		}
	}
}

func testResolveClears(t *testing.T, h Harness) {
	a, v := doubtful(t, h)
	quiet(t, h, v.Ref.OpKey)
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied)
	a = take(t, h, a.run)
	in := refund()
	if w := a.want(ledger.Execute, in); w.Prior || w.Ref.Attempt != 2 || w.Ref.OpKey != v.Ref.OpKey {
		t.Errorf("after the resolution: %+v", w)
	}
	if s := a.end(in.Token, ledger.NotApplied); s.State != events.EffectNotApplied {
		t.Errorf("state = %s", s.State)
	}
}

func testContradicted(t *testing.T, h Harness) {
	for _, c := range []struct {
		resolved events.EffectState
		late     ledger.OutcomeKind
		flagged  bool
	}{
		{events.EffectNotApplied, ledger.Applied, true},
		{events.EffectAbandoned, ledger.Applied, true},
		{events.EffectApplied, ledger.NotApplied, true},
		{events.EffectApplied, ledger.Applied, false},
		{events.EffectNotApplied, ledger.NotApplied, false},
		{events.EffectApplied, ledger.Unclear, false},
	} {
		a := start(t, h)
		in := refund()
		v := a.want(ledger.Execute, in)
		b := a.successor()
		b.want(ledger.InDoubt, refund())
		s := mustResolve(t, h, v.Ref.OpKey, c.resolved, force)
		said := s.Result
		s = a.end(in.Token, c.late)
		if s.State != c.resolved || s.Contradicted != c.flagged || s.PossibleDuplicate || !cmp.Equal(s.Result, said) {
			t.Errorf("%s, then %s: %+v", c.resolved, c.late, s)
		}
		as, err := h.Store.Attempts(t.Context(), v.Ref.OpKey)
		if err != nil || as[0].Outcome != c.late || as[0].EndedAt.IsZero() {
			t.Errorf("%s, then %s: %+v %v", c.resolved, c.late, as, err)
		}
		if e := effect(t, h, v.Ref.OpKey); e.Contradicted != c.flagged || e.SettledBy != "eva" {
			t.Errorf("%s, then %s: %+v", c.resolved, c.late, e)
		}
	}
}

func testContradictedIsNotRunAgain(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund()
	v := a.want(ledger.Execute, in)
	b := a.successor()
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	a.end(in.Token, ledger.Applied)
	b.want(ledger.Replay, refund(call(2, 0)))
	b.want(ledger.Conflict, refund(call(2, 0), amount(6)))
}

func testPossibleDuplicate(t *testing.T, h Harness) {
	a := start(t, h)
	first := refund()
	v := a.want(ledger.Execute, first)
	b := a.successor()
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	second := refund(call(2, 0))
	b.want(ledger.Execute, second)
	s := a.end(first.Token, ledger.Applied) // a late applied settles, whoever runs
	if s.State != events.EffectApplied || !s.Contradicted {
		t.Errorf("first: %+v", s)
	}
	if p := payload[events.ToolExecutionFinished](t, s.Fact); p.Call != first.Call {
		t.Errorf("after the resolution comes what really happened: %+v", p)
	}
	s = b.end(second.Token, ledger.Applied)
	if !s.PossibleDuplicate || s.State != events.EffectApplied || !effect(t, h, v.Ref.OpKey).PossibleDuplicate {
		t.Errorf("second: %+v", s)
	}
	if p := payload[events.ToolExecutionFinished](t, s.Fact); p.Repeated || p.Call != second.Call {
		t.Errorf("fact: %+v", p)
	}
	// A second attempt without an effect of its own hands on the first one's.
	c := start(t, h)
	first = refund()
	v = c.want(ledger.Execute, first)
	d := c.successor()
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	second = refund(call(2, 0))
	d.want(ledger.Execute, second)
	told := c.end(first.Token, ledger.Applied)
	s = d.end(second.Token, ledger.NotApplied)
	if s.PossibleDuplicate || s.State != events.EffectApplied || s.Result.Output != told.Result.Output {
		t.Errorf("without effect: %+v", s)
	}
	if p := payload[events.ToolExecutionFinished](t, s.Fact); !p.Repeated || p.Of == nil || p.Of.Call != first.Call || p.Call != second.Call {
		t.Errorf("fact: %+v", p)
	}
}

func testLateArguments(t *testing.T, h Harness) {
	a := start(t, h)
	first := refund()
	v := a.want(ledger.Execute, first)
	b := a.successor()
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, force)
	second := refund(amount(6), call(2, 0))
	b.want(ledger.Execute, second)
	a.end(first.Token, ledger.Applied)
	w := b.want(ledger.Conflict, refund(amount(6), call(3, 0)))
	if string(w.OfArguments) != string(first.Arguments) || w.Of.Call != first.Call {
		t.Errorf("conflict names %s of %s", w.OfArguments, w.Of.Call)
	}
	b.want(ledger.Replay, refund(call(3, 0)))
}

func seen(attempt int, run events.RunID) func(*ledger.Resolution) {
	return func(r *ledger.Resolution) { r.Attempt, r.Run = attempt, run }
}

// What a person knows is of the attempt that they looked at. A page that was open
// while another one said "it did not", and the call was made again, must not say
// the same of the attempt that followed.
func testResolveSeen(t *testing.T, h Harness) {
	a, v := doubtful(t, h)
	quiet(t, h, v.Ref.OpKey)
	shown := effect(t, h, v.Ref.OpKey)
	mustResolve(t, h, v.Ref.OpKey, events.EffectNotApplied, seen(shown.Attempts, shown.Run))
	a = take(t, h, a.run)
	in := refund(amount(6))
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Unclear)
	quiet(t, h, v.Ref.OpKey)
	for _, state := range decisions {
		for _, opts := range [][]func(*ledger.Resolution){
			{seen(shown.Attempts, events.RunID{})},
			{seen(shown.Attempts, shown.Run), force},
			{seen(shown.Attempts+2, shown.Run)},
			{seen(0, submit(t, h).ID)}, // it went to another run
		} {
			_, err := resolve(t, h, v.Ref.OpKey, state, opts...)
			wantError(t, err, ledger.ErrAttemptedSince)
		}
	}
	e := effect(t, h, v.Ref.OpKey)
	if e.State != events.EffectInDoubt || e.Attempts != 2 || string(e.Arguments) != string(in.Arguments) {
		t.Fatalf("after what was refused: %+v", e)
	}
	mustResolve(t, h, v.Ref.OpKey, events.EffectApplied, seen(e.Attempts, e.Run))
	take(t, h, a.run).want(ledger.Replay, in)
}
