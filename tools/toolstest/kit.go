package toolstest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// Probe is one call of a tool with everything it goes through.
type Probe struct {
	// Tool is registered in a registry of the probe's own, and not wrapped. Nil
	// means an empty registry.
	Tool tools.Tool
	// Name is the tool's if empty.
	Name string
	// Arguments are those of the call; empty means {}.
	Arguments json.RawMessage

	Filters    []tools.Filter
	Permission func(context.Context, tools.Env, *tools.Definition, tools.Call) error // nil allows all
	Validate   func(context.Context, *tools.Definition, tools.Call) error
	Secrets    tools.Secrets
	Redactor   *redact.Redactor
	Spawner    tools.Spawner // starts child runs; nil where there are none
	Past       tools.Past    // what the run has done before; nil where nobody knows
	Recaller   tools.Recaller
	Skills     tools.Skills // those that the run may load; nil where there are none
	// Run is where the call happens; nil means a new run of a new ledger.
	Run  *Run
	Call events.CallID // the first call of turn 1 if zero
}

// DispatchAndCollect performs the call of p and returns how it stands and what
// it recorded. It fails tb only where the dispatch itself does.
func DispatchAndCollect(tb testing.TB, p Probe) (tools.Disposition, []events.Payload) {
	tb.Helper()
	var reg tools.Registry
	if p.Tool != nil {
		if err := reg.Add(p.Tool); err != nil {
			tb.Fatalf("register: %v", err)
		}
		if p.Name == "" {
			p.Name = p.Tool.Definition().Name
		}
	}
	if p.Run == nil {
		p.Run = NewLedger().Run()
	}
	if p.Call == (events.CallID{}) {
		p.Call = events.CallID{Turn: 1}
	}
	d := tools.NewDispatcher(&reg, tools.Config{
		Filters: p.Filters, Permission: p.Permission, Validate: p.Validate, Secrets: p.Secrets, Redactor: p.Redactor,
	})
	before := len(p.Run.Events())
	disp, err := d.Dispatch(context.Background(), p.env(), tools.Call{ID: p.Call, Name: p.Name, Arguments: p.Arguments})
	if err != nil {
		tb.Fatalf("dispatch %s: %v", p.Name, err)
	}
	return disp, p.Run.Events()[before:]
}

// env is the run with what the probe adds to it.
func (p *Probe) env() tools.Env {
	env := p.Run.Env()
	env.Spawner, env.Past, env.Recaller, env.Skills = p.Spawner, p.Past, p.Recaller, p.Skills
	return env
}

// AssertBlocked performs p and fails tb unless it was blocked for reason: one
// blocked event that says so, and no started event, which is the proof that
// the tool did not run.
func AssertBlocked(tb testing.TB, p Probe, reason events.BlockedReason) {
	tb.Helper()
	disp, es := DispatchAndCollect(tb, p)
	if disp.State != tools.StateDone || disp.Blocked != reason {
		tb.Fatalf("%s: state %d, blocked %q, want done and blocked %q", p.Name, disp.State, disp.Blocked, reason)
	}
	if got := TypesOf(es); !slices.Equal(got, []string{"tool_execution_blocked"}) {
		tb.Fatalf("%s: recorded %v, want one tool_execution_blocked", p.Name, got)
	}
	b := es[0].(events.ToolExecutionBlocked)
	if b.Reason != reason || b.Result.Status != tools.Failed || b.Result.Error == "" {
		tb.Fatalf("%s: blocked event has reason %q and result %+v, want %q and a text", p.Name, b.Reason, b.Result, reason)
	}
}

// ToolCase is what [TestTool] needs to know of a tool.
type ToolCase struct {
	ValidArguments json.RawMessage
	Permission     func(context.Context, tools.Env, *tools.Definition, tools.Call) error // nil allows all
	Validate       func(context.Context, *tools.Definition, tools.Call) error
	Filters        []tools.Filter
	Secrets        tools.Secrets
	Spawner        tools.Spawner
	Past           tools.Past
	Recaller       tools.Recaller
	Skills         tools.Skills
	// HandsOff: a valid call is no success here, its outcome comes from outside.
	HandsOff bool
	// Hostile lets a destructive tool be called with odd arguments too, and with a
	// context that has ended. Others always are.
	Hostile bool
}

// TestTool checks that dispatching t conforms: blocked for each of the five
// reasons, whatever the arguments a result that a model can act on, then one
// success. It stops at the first violation. The successful call is really made,
// and of a tool that is not destructive, or Hostile, many odd ones.
func TestTool(tb testing.TB, t tools.Tool, c ToolCase) {
	tb.Helper()
	p := Probe{
		Tool: t, Arguments: c.ValidArguments, Filters: c.Filters, Permission: c.Permission, Validate: c.Validate, Secrets: c.Secrets,
		Spawner: c.Spawner, Past: c.Past, Recaller: c.Recaller, Skills: c.Skills,
	}
	unknown := p
	unknown.Name = "toolstest_no_such_tool"
	AssertBlocked(tb, unknown, events.BlockedUnknownTool)
	denied := p
	denied.Filters = append(slices.Clone(c.Filters), tools.Filter{Deny: []string{t.Definition().Name}})
	AssertBlocked(tb, denied, events.BlockedToolDenied)
	badArguments(tb, p)
	forbidden := p
	forbidden.Permission = func(context.Context, tools.Env, *tools.Definition, tools.Call) error {
		return errors.New("denied by the kit")
	}
	AssertBlocked(tb, forbidden, events.BlockedPermissionDenied)
	refused := p
	refused.Validate = func(context.Context, *tools.Definition, tools.Call) error { return errors.New("refused by the kit") }
	AssertBlocked(tb, refused, events.BlockedValidationFailed)
	if c.Hostile || !t.Definition().IsDestructive() {
		oddArguments(tb, p)
		endedContext(tb, p)
	}
	if c.HandsOff {
		handOff(tb, p)
		return
	}
	succeed(tb, p)
}

// handOff makes the call, whose outcome must come from outside.
func handOff(tb testing.TB, p Probe) {
	tb.Helper()
	p.Run = NewLedger().Run()
	d, es := DispatchAndCollect(tb, p)
	if got := TypesOf(es); d.State != tools.StateHandedOff || d.Token.IsZero() || !slices.Equal(got, []string{"tool_execution_started"}) {
		tb.Fatalf("%s: state %d, recorded %v, want it started and handed off", p.Tool.Definition().Name, d.State, got)
	}
}

// succeed makes the call, and a destructive one a second time, which must not
// reach the tool.
func succeed(tb testing.TB, p Probe) {
	tb.Helper()
	p.Run = NewLedger().Run()
	name := p.Tool.Definition().Name
	first, es := DispatchAndCollect(tb, p)
	if first.State != tools.StateDone || first.Result.Status != tools.Completed {
		tb.Fatalf("%s: state %d, result %+v, want a completed call", name, first.State, first.Result)
	}
	got := slices.DeleteFunc(TypesOf(es), func(s string) bool { return s == "tool_execution_progress" })
	if !slices.Equal(got, []string{"tool_execution_started", "tool_execution_finished"}) {
		tb.Fatalf("%s: recorded %v, want started and finished", name, got)
	}
	if !p.Tool.Definition().IsDestructive() {
		return
	}
	p.Call = events.CallID{Turn: 2}
	again, es := DispatchAndCollect(tb, p)
	if got := TypesOf(es); !slices.Equal(got, []string{"tool_execution_finished"}) || !es[0].(events.ToolExecutionFinished).Repeated {
		tb.Fatalf("%s: the same destructive call again recorded %v, want one finished, repeated", name, got)
	}
	if again.Result.Output != first.Result.Output {
		tb.Fatalf("%s: repeated with %q, want the first output %q", name, again.Result.Output, first.Result.Output)
	}
}
