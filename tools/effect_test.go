package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

var refund = tools.Definition{
	Name: "refund", Description: "Pays money back.", Effect: tools.Destructive, Identity: []string{"order"}, Timeout: time.Minute,
	Args: []tools.Arg{{Name: "order", Type: tools.String}, {Name: "cents", Type: tools.Integer}},
}

// provider counts what took effect outside.
type provider struct {
	done int
	keys []string
	fn   func(context.Context, *tools.Invocation) (any, error) // nil: it works
}

func (p *provider) call(ctx context.Context, inv *tools.Invocation) (any, error) {
	p.keys = append(p.keys, inv.OpKey)
	if p.fn != nil {
		return p.fn(ctx, inv)
	}
	p.done++
	return "refunded, secret " + canary, nil
}

func at(turn int, args string) tools.Call {
	return tools.Call{ID: events.CallID{Turn: turn}, Name: "refund", Arguments: json.RawMessage(args)}
}

// SG-31: the same destructive call is not made again; its first result comes back.
func TestRepeatIsReplayed(t *testing.T) {
	p := &provider{}
	b := newBench(t, tools.Config{}, tool(t, refund, p.call))
	first := b.dispatch(at(1, `{"order":"A1","cents":500}`))
	again := b.dispatch(at(2, `{"cents":500,"order":"A1"}`))
	b.types("tool_execution_started", "tool_execution_finished", "tool_execution_finished")
	e := last[events.ToolExecutionFinished](b)
	if p.done != 1 || again.Result.Output != first.Result.Output || !e.Repeated || e.Of == nil || e.Of.Call.Turn != 1 || e.Of.Run != b.run.ID || e.Ref == nil {
		t.Errorf("done %d times, repeat %+v", p.done, e)
	}
	// The same call again is recovery, not a repeat.
	b.dispatch(at(1, `{"cents":500,"order":"A1"}`))
	if e := last[events.ToolExecutionFinished](b); e.Repeated || e.Of != nil || p.done != 1 {
		t.Errorf("recovered call: %+v, done %d", e, p.done)
	}
	// SG-31: never for calls that are not destructive.
	n := newBench(t, tools.Config{}, named(t, "a"))
	n.call("a", `{}`)
	n.call("a", `{}`)
	n.types("tool_execution_started", "tool_execution_finished", "tool_execution_started", "tool_execution_finished")
}

func TestOtherArgumentsUnderTheSameIdentityConflict(t *testing.T) {
	p := &provider{}
	b := newBench(t, tools.Config{}, tool(t, refund, p.call))
	b.dispatch(at(1, `{"order":"A1","cents":500}`))
	disp := b.dispatch(at(2, `{"order":"A1","cents":900}`))
	e := last[events.ToolExecutionBlocked](b)
	if p.done != 1 || disp.Blocked != events.BlockedInvalidArguments || disp.Detail != tools.DetailIdentityConflict || e.OpKey.IsZero() || e.Of.Call.Turn != 1 {
		t.Errorf("done %d, %+v", p.done, e)
	}
	for _, s := range []string{`"cents":500`, `"cents":900`, "t1.c0", b.run.ID.String()} {
		if !strings.Contains(e.Result.Error, s) {
			t.Errorf("error %q does not say %s", e.Result.Error, s)
		}
	}
}

// SG-16: no statement of an effect goes through the protocol too.
// crewAIInc/crewAI#5802
func TestUndeclaredToolIsDestructive(t *testing.T) {
	p := &provider{}
	d := refund
	d.Effect = ""
	b := newBench(t, tools.Config{}, tool(t, d, p.call))
	b.dispatch(at(1, `{"order":"A1"}`))
	b.dispatch(at(2, `{"order":"A1"}`))
	if p.done != 1 || len(p.keys[0]) != 64 {
		t.Errorf("done %d times under %v", p.done, p.keys)
	}
	if !b.d.Destructive("refund") || !b.d.Destructive("no such tool") {
		t.Error("Destructive says no")
	}
}

// The stricter of the recorded and the current effect counts.
func TestRecordedEffectTightens(t *testing.T) {
	p := &provider{}
	d := refund
	d.Effect, d.Timeout = tools.Readonly, -1
	b := newBench(t, tools.Config{}, tool(t, d, p.call))
	env := b.run.Env()
	env.Bindings = []events.ToolBinding{{Name: "refund", Effect: "destructive"}}
	for turn := 1; turn <= 2; turn++ {
		if _, err := b.d.Dispatch(t.Context(), env, at(turn, `{"order":"A1"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if p.done != 1 || b.d.Destructive("refund") || !b.d.Destructive("refund", env.Bindings...) {
		t.Errorf("done %d times", p.done)
	}
}

func TestBlockedBeforeItBegins(t *testing.T) {
	for name, args := range map[string]string{
		tools.DetailRedactedArgument: `{"order":"[REDACTED:card:0a1b2c3d]"}`,
		tools.DetailIdentityMissing:  `{"cents":1}`,
	} {
		p := &provider{}
		b := newBench(t, tools.Config{}, tool(t, refund, p.call))
		if disp := b.dispatch(at(1, args)); disp.Blocked != events.BlockedInvalidArguments || disp.Detail != name || len(p.keys) != 0 {
			t.Errorf("%s: %+v", name, disp)
		}
		b.types("tool_execution_blocked")
	}
	null, err := tools.Raw(refund, json.RawMessage(`{"type":"object"}`), (&provider{}).call)
	if err != nil {
		t.Fatal(err)
	}
	if disp := newBench(t, tools.Config{}, null).dispatch(at(1, `{"order":null}`)); disp.Detail != tools.DetailIdentityMissing {
		t.Errorf("null identity: %+v", disp)
	}
}

// What the tool says decides between not applied, applied and nobody knows.
// RELIABILITY row 17.
func TestOutcomesOfADestructiveCall(t *testing.T) {
	plain, gone := errors.New("502 from "+canary), errors.New("connection refused")
	tests := []struct {
		name     string
		recovery tools.Recovery
		prior    bool // an earlier attempt may have reached the provider
		value    any
		err      error
		state    events.EffectState
		cause    string
	}{
		{"works", tools.Recovery{}, false, "ok", nil, events.EffectApplied, ""},
		{"no effect", tools.Recovery{}, false, nil, tools.NoEffect(gone), events.EffectNotApplied, ""},
		{"ordinary error", tools.Recovery{}, false, nil, plain, events.EffectInDoubt, tools.CauseUnclearError},
		{"already there, opaque", tools.Recovery{}, false, nil, tools.AlreadyApplied("ok"), events.EffectInDoubt, tools.CauseUnclearError},
		{"already there, keyed", tools.Keyed(time.Hour), false, nil, tools.AlreadyApplied("ok"), events.EffectApplied, ""},
		{"already there, fenced", tools.Fenced(), false, nil, tools.AlreadyApplied("ok"), events.EffectApplied, ""},
		{"keyed again works", tools.Keyed(time.Hour), true, "ok", nil, events.EffectApplied, ""},
		// A definite error after an unclear attempt proves nothing.
		{"no effect after an unclear attempt", tools.Keyed(time.Hour), true, nil, tools.NoEffect(gone), events.EffectInDoubt, tools.CauseUnclearError},
		{"fenced refusal of ours", tools.Fenced(), true, nil, tools.AlreadyApplied("ok"), events.EffectApplied, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &provider{}
			d := refund
			d.Recovery = tt.recovery
			b := newBench(t, tools.Config{}, tool(t, d, p.call))
			if tt.prior {
				crashOnce(t, b)
			}
			p.fn = func(_ context.Context, inv *tools.Invocation) (any, error) {
				if inv.Prior != tt.prior || (inv.Fence > 1) != tt.prior {
					t.Errorf("prior %v fence %d", inv.Prior, inv.Fence)
				}
				return tt.value, tt.err
			}
			disp := b.dispatch(at(1, `{"order":"A1"}`))
			switch tt.state {
			case events.EffectApplied:
				if e := last[events.ToolExecutionFinished](b); disp.State != tools.StateDone || disp.Result.Output != "ok" || e.Repeated {
					t.Errorf("%+v", disp)
				}
			case events.EffectNotApplied:
				if e := last[events.ToolExecutionError](b); disp.State != tools.StateDone || disp.Result.Status != tools.Failed || e.Ref == nil {
					t.Errorf("%+v", disp)
				}
			default:
				e := last[events.ToolExecutionInDoubt](b)
				if disp.State != tools.StateInDoubt || disp.Verdict.Kind != tools.InDoubt || disp.Cause != tt.cause || e.Cause != tt.cause || e.Evidence == "" {
					t.Errorf("%+v, event %+v", disp, e)
				}
			}
		})
	}
}

// crashOnce begins call t1.c0 and loses its worker before the outcome is known.
func crashOnce(t *testing.T, b *bench) {
	t.Helper()
	_, err := b.run.Begin(t.Context(), tools.Intent{
		Call: events.CallID{Turn: 1}, CallAttempt: 1, Tool: mustDefinition(t, b), Timeout: time.Minute,
		Identity: json.RawMessage(`{"order":"A1"}`), Arguments: json.RawMessage(`{"order":"A1"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.run.Crash()
}

func mustDefinition(t *testing.T, b *bench) *tools.Definition {
	t.Helper()
	d, ok := b.d.Definition("refund")
	if !ok {
		t.Fatal("no refund")
	}
	return d
}

// An effect that is not applied may begin again; one in doubt, busy or given up may not.
func TestVerdictsThatDoNotRun(t *testing.T) {
	p := &provider{fn: func(context.Context, *tools.Invocation) (any, error) { return nil, errors.New("unclear") }}
	d := refund
	d.Scope, d.InDoubtContinue = tools.ScopeSession, true
	b := newBench(t, tools.Config{}, tool(t, d, p.call))
	ledger := toolstest.NewLedger()
	b.run = ledger.Run()
	other := ledger.Run()
	first := b.dispatch(at(1, `{"order":"A1"}`))
	if first.State != tools.StateInDoubt || !first.Continue {
		t.Fatalf("%+v", first)
	}
	n := len(b.run.Events())
	if disp := b.dispatch(at(2, `{"order":"A1"}`)); disp.State != tools.StateInDoubt || disp.Verdict.Ref.OpKey != first.Verdict.Ref.OpKey || !disp.Continue {
		t.Errorf("own: %+v", disp)
	}
	disp, err := b.d.Dispatch(t.Context(), other.Env(), at(1, `{"order":"A1"}`))
	if err != nil || disp.State != tools.StateBusy {
		t.Errorf("other run: %+v, %v", disp, err)
	}
	if len(b.run.Events()) != n || len(other.Events()) != 0 {
		t.Errorf("waiting recorded events: %v %v", b.run.Types(), other.Types())
	}
	ledger.Resolve(first.Verdict.Ref.OpKey, events.EffectAbandoned, events.ToolResult{})
	disp = b.dispatch(at(3, `{"order":"A1"}`))
	if disp.Blocked != events.BlockedPermissionDenied || disp.Detail != "abandoned" || !strings.Contains(disp.Result.Error, "do not retry") {
		t.Errorf("given up: %+v", disp)
	}
	if len(p.keys) != 1 {
		t.Errorf("the tool ran %d times", len(p.keys))
	}
}

func TestNotAppliedMayBeginAgainUnderTheSameKey(t *testing.T) {
	p := &provider{fn: func(context.Context, *tools.Invocation) (any, error) {
		return nil, tools.NoEffect(errors.New("refused"))
	}}
	b := newBench(t, tools.Config{}, tool(t, refund, p.call))
	b.dispatch(at(1, `{"order":"A1","cents":1}`))
	p.fn = nil
	if disp := b.dispatch(at(2, `{"order":"A1","cents":2}`)); disp.Result.Status != tools.Completed || p.done != 1 || p.keys[0] != p.keys[1] {
		t.Errorf("%+v, keys %v", disp, p.keys)
	}
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name   string
		probe  func(context.Context, *tools.Invocation) (tools.ProbeResult, error)
		state  tools.ProbeState
		output string
	}{
		{"happened", func(context.Context, *tools.Invocation) (tools.ProbeResult, error) {
			return tools.ProbeResult{State: tools.ProbeHappened, Result: map[string]int{"paid": 5}}, nil
		}, tools.ProbeHappened, `{"paid":5}`},
		{"did not happen", func(context.Context, *tools.Invocation) (tools.ProbeResult, error) {
			return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
		}, tools.ProbeDidNotHappen, ""},
		{"error", func(context.Context, *tools.Invocation) (tools.ProbeResult, error) {
			return tools.ProbeResult{State: tools.ProbeHappened}, errors.New("503 " + canary)
		}, tools.ProbeUnknown, ""},
		{"panic", func(context.Context, *tools.Invocation) (tools.ProbeResult, error) { panic(canary) }, tools.ProbeUnknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			probed := tools.WithProbe(tool(t, refund, nothing), tt.probe)
			b := newBench(t, tools.Config{}, probed)
			got, err := b.d.Probe(t.Context(), b.run.Env(), at(1, `{"order":"A1"}`), events.EffectRef{Attempt: 1})
			if err != nil || got.State != tt.state || got.Result.Output != tt.output || strings.Contains(got.Evidence, canary) {
				t.Errorf("Probe = %+v, %v", got, err)
			}
			if (got.State == tools.ProbeUnknown) != (got.Evidence != "") {
				t.Errorf("evidence %q", got.Evidence)
			}
		})
	}
	b := newBench(t, tools.Config{}, tool(t, refund, nothing))
	if _, err := b.d.Probe(t.Context(), b.run.Env(), at(1, `{}`), events.EffectRef{}); err == nil {
		t.Error("a tool that cannot be asked was asked")
	}
}
