package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// canary is a registered secret: no event and no result may contain it.
const canary = "hunter2-canary-9f8e7d"

// bench is a dispatcher with a run of its own.
type bench struct {
	t   testing.TB
	run *toolstest.Run
	d   *tools.Dispatcher
}

func newBench(t testing.TB, cfg tools.Config, ts ...tools.Tool) *bench {
	t.Helper()
	reg, err := tools.NewRegistry(ts...)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Redactor == nil {
		cfg.Redactor = redact.New(redact.Config{})
		if err := cfg.Redactor.Register("canary", canary); err != nil {
			t.Fatal(err)
		}
	}
	return &bench{t, toolstest.NewLedger().Run(), tools.NewDispatcher(reg, cfg)}
}

// call dispatches the next call of turn 1 and checks that no secret came out.
func (b *bench) call(name, args string) tools.Disposition {
	b.t.Helper()
	return b.dispatch(tools.Call{ID: events.CallID{Turn: 1, Index: len(b.run.Events())}, Name: name, Arguments: json.RawMessage(args)})
}

func (b *bench) dispatch(c tools.Call) tools.Disposition {
	b.t.Helper()
	disp, err := b.d.Dispatch(b.t.Context(), b.run.Env(), c)
	if err != nil {
		b.t.Fatalf("dispatch %s: %v", c.Name, err)
	}
	b.noSecret(disp)
	return disp
}

func (b *bench) noSecret(disp tools.Disposition) {
	b.t.Helper()
	raw, err := json.Marshal([]any{b.run.Events(), disp.Result, disp.Verdict.Result})
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(string(raw), canary) {
		b.t.Errorf("the secret came out: %s", raw)
	}
}

func (b *bench) types(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.run.Types()); diff != "" {
		b.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func last[T events.Payload](b *bench) T {
	b.t.Helper()
	es := b.run.Events()
	for i := len(es) - 1; i >= 0; i-- {
		if p, ok := es[i].(T); ok {
			return p
		}
	}
	b.t.Fatalf("no %T in %v", *new(T), b.run.Types())
	return *new(T)
}

func tool(t testing.TB, d tools.Definition, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
	t.Helper()
	if d.Description == "" {
		d.Description = "Does."
	}
	made, err := tools.Raw(d, nil, fn)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// PR-37: the order of the pipeline, told by what each stage saw.
func TestDispatchOrder(t *testing.T) {
	var trace []string
	say := func(s string) { trace = append(trace, s) }
	echo := tool(t, tools.Definition{Name: "echo", Effect: tools.Readonly, Args: []tools.Arg{{Name: "x", Type: tools.Integer}}},
		func(_ context.Context, inv *tools.Invocation) (any, error) {
			say("execute " + string(inv.Arguments))
			inv.Progress("half", nil)
			return "out", nil
		})
	b := newBench(t, tools.Config{
		CallMiddleware: []tools.CallMiddleware{
			func(_ context.Context, c tools.Call) (tools.Call, error) {
				say("middleware 1 " + string(c.Arguments))
				c.Arguments = json.RawMessage(`{"x": 2}`)
				return c, nil
			},
			func(_ context.Context, c tools.Call) (tools.Call, error) { say("middleware 2"); return c, nil },
		},
		ResultMiddleware: []tools.ResultMiddleware{func(_ context.Context, _ tools.Call, r events.ToolResult) (events.ToolResult, error) {
			say("result " + r.Output)
			r.Output = "changed"
			return r, nil
		}},
		Permission: func(_ context.Context, _ tools.Env, _ *tools.Definition, c tools.Call) error {
			say("permission " + string(c.Arguments))
			return nil
		},
		Validate: func(context.Context, *tools.Definition, tools.Call) error { say("validate"); return nil },
	}, echo)
	disp := b.call("echo", `{"x":1}`)
	want := []string{
		`middleware 1 {"x":1}`, "middleware 2", `permission {"x":2}`, "validate", `execute {"x":2}`, "result out",
	}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	// PR-45.
	b.types("tool_execution_started", "tool_execution_progress", "tool_execution_finished")
	if disp.Result.Output != "changed" || string(last[events.ToolExecutionStarted](b).Arguments) != `{"x":2}` {
		t.Errorf("result %+v", disp.Result)
	}
}

// PR-38, PR-39, PR-40, PR-41, PR-43, PR-54: each of the five reasons is one
// blocked event with a result, and the tool does not run.
func TestBlockedReasons(t *testing.T) {
	ran := 0
	x := tool(t, tools.Definition{Name: "x", Args: []tools.Arg{{Name: "n", Type: tools.Integer}}}, func(context.Context, *tools.Invocation) (any, error) {
		ran++
		return "", nil
	})
	deny := func(context.Context, tools.Env, *tools.Definition, tools.Call) error {
		return errors.New("not with " + canary)
	}
	refuse := func(context.Context, *tools.Definition, tools.Call) error {
		return errors.New("looks wrong: " + canary)
	}
	mayNot := func(context.Context, *tools.Definition, tools.Call) error {
		t.Error("the validator was asked after a denial")
		return nil
	}
	tests := []struct {
		name, call, args string
		cfg              tools.Config
		reason           events.BlockedReason
		detail           string
		says             string
	}{
		{"unknown tool lists what there is", "nope", `{}`, tools.Config{}, events.BlockedUnknownTool, "", "there are x"},
		{"denied by filter", "x", `{}`, tools.Config{Filters: []tools.Filter{{Deny: []string{"x"}}}}, events.BlockedToolDenied, "", "not allowed"},
		{"array", "x", `[]`, tools.Config{Validate: mayNot}, events.BlockedInvalidArguments, tools.DetailNotObject, "got array"},
		{"string", "x", `"{}"`, tools.Config{Validate: mayNot}, events.BlockedInvalidArguments, tools.DetailNotObject, "got string"},
		{"null", "x", `null`, tools.Config{Validate: mayNot}, events.BlockedInvalidArguments, tools.DetailNotObject, "got null"},
		{"schema", "x", `{"n":"1"}`, tools.Config{}, events.BlockedInvalidArguments, tools.DetailSchema, `"n" must be integer, got string`},
		{"permission", "x", `{}`, tools.Config{Permission: deny, Validate: mayNot}, events.BlockedPermissionDenied, "", "not with [REDACTED:canary:"},
		{
			"permission with detail", "x", `{}`,
			tools.Config{Permission: func(context.Context, tools.Env, *tools.Definition, tools.Call) error {
				return fmt.Errorf("gate: %w", &tools.Denial{Detail: "taint", Text: "external text came in"})
			}},
			events.BlockedPermissionDenied, "taint", "external text came in",
		},
		{
			"permission panics", "x", `{}`,
			tools.Config{Permission: func(context.Context, tools.Env, *tools.Definition, tools.Call) error { panic(canary) }},
			events.BlockedPermissionDenied, "", "panicked",
		},
		{"validator", "x", `{}`, tools.Config{Validate: refuse}, events.BlockedValidationFailed, "", "looks wrong: [REDACTED:canary:"},
		{
			"validator panics", "x", `{}`,
			tools.Config{Validate: func(context.Context, *tools.Definition, tools.Call) error { panic("boom") }},
			events.BlockedValidationFailed, "", "boom",
		},
		{
			"middleware fails", "x", `{}`,
			tools.Config{CallMiddleware: []tools.CallMiddleware{func(context.Context, tools.Call) (tools.Call, error) {
				return tools.Call{}, errors.New("no " + canary)
			}}},
			events.BlockedValidationFailed, "middleware", "no [REDACTED",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.cfg, x)
			disp := b.call(tt.call, tt.args)
			b.types("tool_execution_blocked")
			e := last[events.ToolExecutionBlocked](b)
			if disp.Blocked != tt.reason || e.Reason != tt.reason || e.Detail != tt.detail || disp.Detail != tt.detail {
				t.Errorf("blocked %q detail %q, want %q %q", e.Reason, e.Detail, tt.reason, tt.detail)
			}
			if e.Result.Status != tools.Failed || !strings.Contains(e.Result.Error, tt.says) || e.Result.Output != "" || e.At.IsZero() {
				t.Errorf("result %+v, want it to say %q", e.Result, tt.says)
			}
			if e.Tool != tt.call {
				t.Errorf("tool %q", e.Tool)
			}
		})
	}
	if ran > 0 {
		t.Errorf("the tool ran %d times", ran)
	}
}

// PR-42: what middleware makes of a call faces the three checks again.
func TestMiddlewareCannotGrant(t *testing.T) {
	to := func(name, args string) tools.Config {
		return tools.Config{
			Filters: []tools.Filter{{Deny: []string{"hidden"}}},
			CallMiddleware: []tools.CallMiddleware{func(_ context.Context, c tools.Call) (tools.Call, error) {
				c.Name, c.Arguments = name, json.RawMessage(args)
				c.ID = events.CallID{Turn: 99} // ours, not the middleware's
				return c, nil
			}},
		}
	}
	for _, tt := range []struct {
		name, to, args string
		reason         events.BlockedReason
	}{
		{"to a denied tool", "hidden", `{}`, events.BlockedToolDenied},
		{"to no tool", "ghost", `{}`, events.BlockedUnknownTool},
		{"to a list", "a", `[1]`, events.BlockedInvalidArguments},
		{"to no JSON", "a", `{`, events.BlockedInvalidArguments},
		{"to an undeclared argument", "a", `{"admin":true}`, events.BlockedInvalidArguments},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, to(tt.to, tt.args), named(t, "a"), named(t, "hidden"))
			if disp := b.call("a", `{}`); disp.Blocked != tt.reason {
				t.Errorf("blocked %q, want %q", disp.Blocked, tt.reason)
			}
			if e := last[events.ToolExecutionBlocked](b); e.Call.Turn != 1 {
				t.Errorf("middleware changed the call's identity to %v", e.Call)
			}
		})
	}
}

// What middleware puts into arguments is redacted like everything else, so a
// destructive call made from it is blocked.
func TestMiddlewareCannotPutSecretsIn(t *testing.T) {
	put := func(_ context.Context, c tools.Call) (tools.Call, error) {
		copy(c.Arguments, `{"s":"`+canary+`"}`) // even in place
		return c, nil
	}
	args := `{"s":"` + strings.Repeat("x", len(canary)) + `"}`
	for _, effect := range []tools.Effect{tools.Readonly, tools.Destructive} {
		var got string
		s := tool(t, tools.Definition{Name: "s", Effect: effect, Args: []tools.Arg{{Name: "s", Type: tools.String}}},
			func(_ context.Context, inv *tools.Invocation) (any, error) {
				got = string(inv.Arguments)
				return "", nil
			})
		b := newBench(t, tools.Config{CallMiddleware: []tools.CallMiddleware{put}}, s)
		disp := b.call("s", args)
		if effect == tools.Destructive && (disp.Detail != tools.DetailRedactedArgument || got != "") {
			t.Errorf("destructive: %+v, ran with %q", disp, got)
		}
		if effect == tools.Readonly && !strings.Contains(got, "[REDACTED:canary:") {
			t.Errorf("readonly ran with %q", got)
		}
	}
}

// PR-44: the run's validator overrides the dispatcher's.
func TestValidatorOfTheRunWins(t *testing.T) {
	b := newBench(t, tools.Config{Validate: func(context.Context, *tools.Definition, tools.Call) error { return errors.New("config") }}, named(t, "a"))
	env := b.run.Env()
	env.Validate = func(context.Context, *tools.Definition, tools.Call) error { return nil }
	if disp, err := b.d.Dispatch(t.Context(), env, tools.Call{Name: "a"}); err != nil || disp.Blocked != "" {
		t.Errorf("with the run's validator: %+v, %v", disp, err)
	}
	if disp := b.call("a", `{}`); disp.Blocked != events.BlockedValidationFailed {
		t.Errorf("without: blocked %q", disp.Blocked)
	}
}

// PR-46: a call carries its run; secrets are substituted last and never recorded.
func TestInvocationCarriesTheRun(t *testing.T) {
	var got tools.Invocation
	a := tool(t, tools.Definition{Name: "a", Effect: tools.Readonly, Args: []tools.Arg{{Name: "key", Type: tools.String}}},
		func(_ context.Context, inv *tools.Invocation) (any, error) { got = *inv; return "sent " + canary, nil })
	b := newBench(t, tools.Config{Secrets: vault{}}, a)
	env := b.run.Env()
	env.Trace = "00-trace"
	id := events.CallID{Turn: 3, Index: 4}
	disp, err := b.d.Dispatch(t.Context(), env, tools.Call{ID: id, Attempt: 2, Name: "a", Arguments: json.RawMessage(`{"key":"secret://canary"}`)})
	if err != nil {
		t.Fatal(err)
	}
	b.noSecret(disp)
	if string(got.Arguments) != `{"key":"`+canary+`"}` {
		t.Errorf("the tool got %s", got.Arguments)
	}
	if got.Call != id || got.Attempt != 2 || got.Run != b.run.ID || got.Tenant != "t1" || got.SessionID != "s1" || got.Trace != "00-trace" ||
		got.OpKey != "" || got.Fence != 0 || got.Prior {
		t.Errorf("invocation %+v", got)
	}
	if s := last[events.ToolExecutionStarted](b); string(s.Arguments) != `{"key":"secret://canary"}` || s.Attempt != 2 || s.Call != id {
		t.Errorf("started %+v", s)
	}
}

type vault struct{ err error }

func (v vault) Resolve(args json.RawMessage) (json.RawMessage, error) {
	if v.err != nil {
		return nil, v.err
	}
	return json.RawMessage(strings.ReplaceAll(string(args), "secret://canary", canary)), nil
}

// PR-48: parameters of a foreign schema are interpreted by that schema alone.
func TestForeignSchemaDecides(t *testing.T) {
	open, err := tools.Raw(tools.Definition{Name: "open", Description: "d", Effect: tools.Readonly},
		json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}`), nothing)
	if err != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		`{"n":3,"more":true}`: "", `{"n":3.0}`: "", `{"n":9007199254740993}`: "",
		`{"n":2}`: "at '/n': minimum", `{}`: "missing propert", `{"n":"3"}`: "got string, want integer",
	} {
		disp := newBench(t, tools.Config{}, open).call("open", args)
		if (says == "") != (disp.Blocked == "") || !strings.Contains(disp.Result.Error, says) {
			t.Errorf("%s: blocked %q, %q, want %q", args, disp.Blocked, disp.Result.Error, says)
		}
	}
}
