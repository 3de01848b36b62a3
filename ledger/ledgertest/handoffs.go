package ledgertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var handoffTests = []conformance{
	{"a call is completed from outside and its run wakes", testHandoffCompletes},
	{"a call that was completed before its run parks keeps it from parking", testHandoffBeforePark},
	{"completed twice it is done once", testHandoffTwice},
	{"an unknown token completes nothing", testHandoffUnknown},
	{"what no caller may mean is refused", testHandoffRefused},
	{"a run that waits is looked at when the first call expires", testHandoffWake},
	{"an expired call has failed, a timer has what it waited for", testHandoffExpires},
	{"only one of completing and expiring happens", testHandoffRace},
	{"a fenced hand-off commits nothing", testHandoffFenced},
	{"a takeover leaves a handed-off effect alone", testHandoffTakeover},
	{"an effect is in doubt once its time is up and late evidence settles it", testHandoffLate},
	{"an effect that is completed before the hand-off is settled", testHandoffEarly},
	{"the end of a run closes what it waits for", testHandoffRunEnds},
	{"hand-offs are listed", testHandoffList},
}

// handoff of the first call of turn 1.
func (a *actor) handoff(opts ...func(*ledger.Handoff)) ledger.Handoff {
	h := ledger.Handoff{Call: events.CallID{Turn: 1}, CallAttempt: 1, Tool: "survey", Trust: "external", For: time.Hour}
	for _, o := range opts {
		o(&h)
	}
	if h.Token.IsZero() {
		h.Token = events.CallToken(a.run.ID, h.Call, h.Tool, nil)
	}
	return h
}

func (a *actor) handOff(h ledger.Handoff) []events.Fact {
	a.t.Helper()
	fs, err := a.h.Store.HandOff(a.t.Context(), a.lease, a.prefix, h)
	if err != nil {
		a.t.Fatalf("hand off: %v", err)
	}
	a.prefix = nil
	return fs
}

func (a *actor) expire() []events.Fact {
	a.t.Helper()
	fs, err := a.h.Store.Expire(a.t.Context(), a.lease, a.prefix)
	if err != nil {
		a.t.Fatalf("expire: %v", err)
	}
	a.prefix = nil
	return fs
}

// handEffect begins a refund and hands it off.
func (a *actor) handEffect(in ledger.Intent, d time.Duration) events.EffectRef {
	a.t.Helper()
	v := a.want(ledger.Execute, in)
	a.handOff(a.handoff(func(h *ledger.Handoff) {
		h.Token, h.OpKey, h.Call, h.Tool, h.For = v.Ref.Token, v.Ref.OpKey, in.Call, in.Tool, d
	}))
	return v.Ref
}

func (a *actor) parkHere(reason events.ParkReason) error {
	a.t.Helper()
	a.flush()
	return a.h.Store.Park(a.t.Context(), a.lease, a.prefix, ledger.Parking{Reason: reason})
}

func done(token events.ID, output string) ledger.Completion {
	return ledger.Completion{Token: token, Kind: ledger.Applied, Result: events.ToolResult{Output: output}, By: "ann"}
}

func failedAs(kind ledger.OutcomeKind, token events.ID) ledger.Completion {
	return ledger.Completion{Token: token, Kind: kind, Error: events.ErrorInfo{Message: "no such account"}, By: "ann"}
}

func complete(t tb, h Harness, c ledger.Completion) ledger.Settlement {
	t.Helper()
	s, err := h.Store.Complete(t.Context(), c)
	if err != nil {
		t.Fatalf("complete: %v", err)
	}
	return s
}

func testHandoffCompletes(t *testing.T, h Harness) {
	for _, tt := range []struct {
		name  string
		kind  ledger.OutcomeKind
		state events.EffectState
	}{{"done", ledger.Applied, events.EffectApplied}, {"failed", ledger.NotApplied, events.EffectNotApplied}} {
		a := start(t, h)
		a.note(events.TurnStarted{Turn: 1})
		ho := a.handoff(func(h *ledger.Handoff) { h.CallAttempt = 2 })
		a.handOff(ho)
		if n := h.archived(t, a.run.ID); n != 1 {
			t.Errorf("%s: the barrier carried %d events", tt.name, n)
		}
		a.handOff(ho) // its answer was lost
		if err := a.parkHere(events.ParkAsyncTool); err != nil {
			t.Fatal(err)
		}
		if tryTake(t, h, a.run) != nil {
			t.Errorf("%s: a run that waits was claimed", tt.name)
		}
		c := done(ho.Token, "42")
		if tt.kind != ledger.Applied {
			c = failedAs(tt.kind, ho.Token)
		}
		if s := complete(t, h, c); s.State != tt.state {
			t.Errorf("%s: settled as %s", tt.name, s.State)
		}
		b := tryTake(t, h, a.run)
		if b == nil {
			t.Fatalf("%s: nobody can claim the run", tt.name)
		}
		if len(b.facts) != 1 {
			t.Fatalf("%s: facts %v", tt.name, types(b.facts))
		}
		want := &events.Completion{Token: ho.Token, By: "ann"}
		if tt.kind == ledger.Applied {
			p := payload[events.ToolExecutionFinished](t, &b.facts[0])
			if p.Call != ho.Call || p.Attempt != 2 || p.Result.Output != "42" || p.Result.Trust != "external" || cmp.Diff(want, p.Completion) != "" {
				t.Errorf("finished %+v", p)
			}
			continue
		}
		p := payload[events.ToolExecutionError](t, &b.facts[0])
		if p.Result.Status != "failed" || p.Error.Message != "no such account" || p.Error.Kind != "tool_error" || cmp.Diff(want, p.Completion) != "" {
			t.Errorf("error %+v", p)
		}
	}
}

func testHandoffBeforePark(t *testing.T, h Harness) {
	a := start(t, h)
	ho := a.handoff()
	a.handOff(ho)
	a.flush()
	complete(t, h, done(ho.Token, "quick"))
	err := h.Store.Park(t.Context(), a.lease, nil, ledger.Parking{Reason: events.ParkAsyncTool})
	if !errors.Is(err, ledger.ErrFactsPending) {
		t.Errorf("park: %v, want %v", err, ledger.ErrFactsPending)
	}
}

func testHandoffTwice(t *testing.T, h Harness) {
	a := start(t, h)
	ho := a.handoff()
	a.handOff(ho)
	complete(t, h, done(ho.Token, "42"))
	complete(t, h, done(ho.Token, "42"))
	for _, c := range []ledger.Completion{done(ho.Token, "43"), failedAs(ledger.NotApplied, ho.Token)} {
		if _, err := h.Store.Complete(t.Context(), c); !errors.Is(err, ledger.ErrCompleted) {
			t.Errorf("another outcome: %v", err)
		}
	}
	if fs := a.pending(); len(fs) != 1 || payload[events.ToolExecutionFinished](t, &fs[0]).Result.Output != "42" {
		t.Errorf("facts %v", types(fs))
	}
}

func testHandoffUnknown(t *testing.T, h Harness) {
	if _, err := h.Store.Complete(t.Context(), done(testIDs.Event(), "x")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func testHandoffRefused(t *testing.T, h Harness) {
	a := start(t, h)
	for name, o := range map[string]func(*ledger.Handoff){
		"no tool":                      func(h *ledger.Handoff) { h.Tool = "" },
		"no turn":                      func(h *ledger.Handoff) { h.Call.Turn = 0 },
		"a reason that is none":        func(h *ledger.Handoff) { h.Reason = events.ParkInDoubt },
		"a timer without a time":       func(h *ledger.Handoff) { h.Reason, h.For = events.ParkTimer, 0 },
		"a signal without a name":      func(h *ledger.Handoff) { h.Reason = events.ParkSignal },
		"an effect without a time":     func(h *ledger.Handoff) { h.OpKey, h.For = events.Hash{1}, 0 },
		"an effect whose expiry is ok": func(h *ledger.Handoff) { h.OpKey, h.ExpiresAs = events.Hash{1}, "ok" },
	} {
		if _, err := h.Store.HandOff(t.Context(), a.lease, nil, a.handoff(o)); err == nil || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ho := a.handoff()
	a.handOff(ho)
	for name, c := range map[string]ledger.Completion{
		"nobody":       {Token: ho.Token, Kind: ledger.Applied},
		"no kind":      {Token: ho.Token, By: "ann"},
		"no error":     {Token: ho.Token, By: "ann", Kind: ledger.NotApplied},
		"no token":     done(events.ID{}, "x"),
		"ends the run": {Token: ho.Token, By: "ann", Kind: ledger.Applied, Result: events.ToolResult{Control: "finish"}},
	} {
		if _, err := h.Store.Complete(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if fs := a.pending(); len(fs) != 0 {
		t.Errorf("facts %v", types(fs))
	}
}

func at(index int) func(*ledger.Handoff) {
	return func(h *ledger.Handoff) { h.Call.Index = index }
}

func testHandoffWake(t *testing.T, h Harness) {
	a := start(t, h)
	a.handOff(a.handoff(at(0), func(h *ledger.Handoff) { h.For = 2 * time.Hour }))
	a.handOff(a.handoff(at(1), func(h *ledger.Handoff) { h.For = time.Hour }))
	a.handOff(a.handoff(at(2), func(h *ledger.Handoff) { h.For = 0 }))
	if err := a.parkHere(events.ParkAsyncTool); err != nil {
		t.Fatal(err)
	}
	hs, err := h.Store.Handoffs(t.Context(), ledger.HandoffFilter{Run: a.run.ID})
	if err != nil || len(hs) != 3 {
		t.Fatalf("%d hand-offs, %v", len(hs), err)
	}
	var first time.Time
	for _, ho := range hs {
		if !ho.Until.IsZero() && (first.IsZero() || ho.Until.Before(first)) {
			first = ho.Until
		}
	}
	if r := h.state(t, a.run.ID); r.WakeAt != first || first.IsZero() {
		t.Errorf("wakes at %v, want %v", r.WakeAt, first)
	}
	h.Advance(59 * time.Minute)
	if tryTake(t, h, a.run) != nil {
		t.Error("claimed before its time")
	}
	h.Advance(time.Minute + time.Second)
	b := tryTake(t, h, a.run)
	if b == nil || len(b.facts) != 1 || b.facts[0].Type != events.TypeOf(events.TimerFired{}) {
		t.Fatalf("not claimed when its time had come: %+v", b)
	}
}

func testHandoffExpires(t *testing.T, h Harness) {
	a := start(t, h)
	survey, timer := a.handoff(at(0)), a.handoff(at(1), func(h *ledger.Handoff) {
		h.Tool, h.Reason, h.ExpiresAs = "wait", events.ParkTimer, "waited an hour"
	})
	a.handOff(survey)
	a.handOff(timer)
	later := a.handoff(at(2), func(h *ledger.Handoff) { h.For = 3 * time.Hour })
	a.handOff(later)
	if fs := a.expire(); len(fs) != 0 {
		t.Errorf("too early: %v", types(fs))
	}
	if err := a.parkHere(events.ParkAsyncTool); err != nil {
		t.Fatal(err)
	}
	h.Advance(time.Hour + time.Second)
	b := take(t, h, a.run)
	b.flush()
	fs := b.expire()
	if len(fs) != 2 {
		t.Fatalf("facts %v", types(fs))
	}
	for i := range fs {
		switch fs[i].Type {
		case events.TypeOf(events.ToolExecutionError{}):
			if p := payload[events.ToolExecutionError](t, &fs[i]); p.Call != survey.Call || p.Error.Kind != "timeout" {
				t.Errorf("error %+v", p)
			}
		default:
			if p := payload[events.ToolExecutionFinished](t, &fs[i]); p.Call != timer.Call || p.Result.Output != "waited an hour" {
				t.Errorf("finished %+v", p)
			}
		}
	}
	b.absorb(fs...)
	if fs := b.expire(); len(fs) != 0 {
		t.Errorf("expired again: %v", types(fs))
	}
	if _, err := h.Store.Complete(t.Context(), done(survey.Token, "late")); !errors.Is(err, ledger.ErrNotAwaited) {
		t.Errorf("completed late: %v", err)
	}
	complete(t, h, done(later.Token, "in time"))
}

// testHandoffRace lets somebody complete a call at the moment when it expires:
// the run is told one outcome, whoever is first.
func testHandoffRace(t *testing.T, h Harness) {
	for range 8 {
		a := start(t, h)
		ho := a.handoff()
		a.handOff(ho)
		if err := a.parkHere(events.ParkAsyncTool); err != nil {
			t.Fatal(err)
		}
		h.Advance(time.Hour + time.Second)
		b := take(t, h, a.run)
		b.flush()
		var cerr, xerr error
		var wg sync.WaitGroup
		wg.Go(func() { _, cerr = h.Store.Complete(t.Context(), done(ho.Token, "42")) })
		wg.Go(func() { _, xerr = h.Store.Expire(t.Context(), b.lease, nil) })
		wg.Wait()
		if xerr != nil || cerr != nil && !errors.Is(cerr, ledger.ErrNotAwaited) {
			t.Fatalf("complete: %v, expire: %v", cerr, xerr)
		}
		fs := b.pending()
		want := events.TypeOf(events.ToolExecutionFinished{})
		if cerr != nil {
			want = events.TypeOf(events.ToolExecutionError{})
		}
		if len(fs) != 1 || fs[0].Type != want {
			t.Errorf("complete: %v, facts %v", cerr, types(fs))
		}
	}
}

func testHandoffFenced(t *testing.T, h Harness) {
	a := start(t, h)
	a.note(events.TurnStarted{Turn: 1})
	a.crash()
	ho := a.handoff()
	for i := range 2 { // lapsed, then taken
		if _, err := h.Store.HandOff(t.Context(), a.lease, a.prefix, ho); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("hand off: %v", err)
		}
		if _, err := h.Store.Expire(t.Context(), a.lease, a.prefix); !errors.Is(err, ledger.ErrFenced) {
			t.Errorf("expire: %v", err)
		}
		if _, err := h.Store.Complete(t.Context(), done(ho.Token, "x")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("complete: %v", err)
		}
		if i == 0 {
			claimOnly(t, h, a.run, "b")
		}
	}
}

func testHandoffTakeover(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryKeyed, ledger.RecoveryFenced, ledger.RecoveryProbe} {
		a := start(t, h)
		ref := a.handEffect(refund(recovery(kind)), 2*time.Hour)
		other := a.want(ledger.Execute, refund(order(8), call(1, 1))) // not handed off
		b := a.successor()
		if e := effect(t, h, ref.OpKey); e.State != events.EffectStarted || e.Deadline.Before(h.state(t, a.run.ID).CreatedAt.Add(time.Hour)) {
			t.Errorf("%s: effect %s until %v", kind, e.State, e.Deadline)
		}
		if e := effect(t, h, other.Ref.OpKey); e.State != events.EffectInDoubt {
			t.Errorf("%s: the effect that was not handed off is %s", kind, e.State)
		}
		// Asked for again, it is neither run nor put in doubt.
		b.want(ledger.InDoubt, refund(recovery(kind)))
		if e := effect(t, h, ref.OpKey); e.State != events.EffectStarted || e.Attempts != 1 {
			t.Errorf("%s: effect %s after %d attempts", kind, e.State, e.Attempts)
		}
		if s := complete(t, h, done(ref.Token, "paid")); s.State != events.EffectApplied {
			t.Errorf("%s: %+v", kind, s)
		}
		b.want(ledger.Replay, refund(recovery(kind)))
	}
}

func testHandoffLate(t *testing.T, h Harness) {
	for _, tt := range []struct {
		kind  ledger.OutcomeKind
		state events.EffectState
	}{{ledger.Applied, events.EffectApplied}, {ledger.NotApplied, events.EffectNotApplied}} {
		a := start(t, h)
		ref := a.handEffect(refund(), time.Hour)
		if err := a.parkHere(events.ParkAsyncTool); err != nil {
			t.Fatal(err)
		}
		h.Advance(time.Hour + time.Second)
		b := take(t, h, a.run)
		b.flush()
		fs := b.expire()
		if len(fs) != 1 || payload[events.ToolExecutionInDoubt](t, &fs[0]).Cause != "timeout" {
			t.Fatalf("facts %v", types(fs))
		}
		b.absorb(fs...)
		if e := effect(t, h, ref.OpKey); e.State != events.EffectInDoubt {
			t.Fatalf("effect %s", e.State)
		}
		c := done(ref.Token, "paid after all")
		if tt.kind != ledger.Applied {
			c = failedAs(tt.kind, ref.Token)
		}
		if s := complete(t, h, c); s.State != tt.state {
			t.Errorf("settled as %s, want %s", s.State, tt.state)
		}
		complete(t, h, c) // again
		b.flush()
		if n := h.count(t, `SELECT count(*) FROM events WHERE run_id = $1 AND type = 'effect_resolved'`, a.run.ID); n != 1 {
			t.Errorf("%d resolutions", n)
		}
		if n := h.count(t, `SELECT count(*) FROM events WHERE run_id = $1 AND type = 'operator_acted'`, a.run.ID); n != 1 {
			t.Errorf("%d records of who completed it", n)
		}
		other := done(ref.Token, "paid twice")
		if _, err := h.Store.Complete(t.Context(), other); !errors.Is(err, ledger.ErrCompleted) {
			t.Errorf("another outcome: %v", err)
		}
	}
}

func testHandoffEarly(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.want(ledger.Execute, refund())
	if s := complete(t, h, done(v.Ref.Token, "quick")); s.State != events.EffectApplied {
		t.Fatalf("settled as %s", s.State)
	}
	fs := a.handOff(a.handoff(func(h *ledger.Handoff) { h.Token, h.OpKey = v.Ref.Token, v.Ref.OpKey }))
	if len(fs) != 2 || payload[events.ToolExecutionFinished](t, &fs[0]).Result.Output != "quick" {
		t.Errorf("facts %v", types(fs))
	}
	if n := h.count(t, `SELECT count(*) FROM handoffs WHERE run_id = $1`, a.run.ID); n != 0 {
		t.Errorf("%d hand-offs", n)
	}
}

func testHandoffRunEnds(t *testing.T, h Harness) {
	a := start(t, h)
	ho := a.handoff(at(1))
	a.handOff(ho)
	ref := a.handEffect(refund(), time.Hour)
	a.note(events.RunFailed{StoppedBy: events.StoppedByDeadline})
	a.flush()
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByDeadline}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Complete(t.Context(), done(ho.Token, "late")); !errors.Is(err, ledger.ErrNotAwaited) {
		t.Errorf("complete: %v", err)
	}
	if e := effect(t, h, ref.OpKey); e.State != events.EffectInDoubt {
		t.Errorf("effect %s", e.State)
	}
	complete(t, h, done(ref.Token, "paid"))
	if e := effect(t, h, ref.OpKey); e.State != events.EffectApplied {
		t.Errorf("effect %s after late evidence", e.State)
	}
	if n := h.count(t, `SELECT count(*) FROM handoffs WHERE run_id = $1 AND state = 'open'`, a.run.ID); n != 0 {
		t.Errorf("%d hand-offs are open", n)
	}
}

func testHandoffList(t *testing.T, h Harness) {
	a, b := start(t, h), start(t, h, ofTenant("other"))
	for i := range 3 {
		a.handOff(a.handoff(at(i)))
	}
	ho := b.handoff()
	b.handOff(ho)
	complete(t, h, done(ho.Token, "x"))
	list := func(f ledger.HandoffFilter) []ledger.Handoff {
		t.Helper()
		hs, err := h.Store.Handoffs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return hs
	}
	first := list(ledger.HandoffFilter{Run: a.run.ID, Limit: 2})
	rest := list(ledger.HandoffFilter{Run: a.run.ID, Limit: 2, After: first[1].Token})
	if len(first) != 2 || len(rest) != 1 {
		t.Errorf("pages of %d and %d", len(first), len(rest))
	}
	if hs := list(ledger.HandoffFilter{States: []ledger.HandoffState{ledger.HandoffOpen}}); len(hs) != 3 {
		t.Errorf("%d are open", len(hs))
	}
	hs := list(ledger.HandoffFilter{Tenant: "other"})
	if len(hs) != 1 || hs[0].State != ledger.HandoffCompleted || hs[0].CompletedBy != "ann" || hs[0].CompletedAt.IsZero() || hs[0].Call != ho.Call {
		t.Errorf("of the other tenant: %+v", hs)
	}
}
