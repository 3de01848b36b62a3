package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// PR-49, PR-50, PR-51, PR-52: what the ledger's rows of a call are projected
// from: one event per transition, in order, with what each row holds.
func TestRowsOfACallThatFinishes(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Readonly, tools.Idempotent, tools.Destructive, ""} {
		t.Run("effect "+string(effect), func(t *testing.T) {
			a := tool(t, tools.Definition{Name: "a", Effect: effect, Args: []tools.Arg{{Name: "x", Type: tools.Integer}}},
				func(_ context.Context, inv *tools.Invocation) (any, error) {
					inv.Progress("half way, "+canary, map[string]any{"done": 1, "password": "p4ssw0rd-1"})
					inv.Progress("more", nil)
					return "ok", nil
				})
			b := newBench(t, tools.Config{}, a)
			b.call("a", `{"x":9007199254740993}`)
			b.types("tool_execution_started", "tool_execution_progress", "tool_execution_progress", "tool_execution_finished")
			s, f := last[events.ToolExecutionStarted](b), last[events.ToolExecutionFinished](b)
			if s.At.IsZero() || string(s.Arguments) != `{"x":9007199254740993}` || s.Effect != string(max(effect, tools.Destructive)) && effect == "" {
				t.Errorf("started %+v", s)
			}
			p := b.run.Events()[1].(events.ToolExecutionProgress)
			if p.At.IsZero() || !strings.HasPrefix(p.Progress, "half way, [REDACTED:") || !strings.Contains(string(p.Metadata), `"done":1`) ||
				strings.Contains(string(p.Metadata), "p4ssw0rd") || p.Call != s.Call || p.Attempt != 1 {
				t.Errorf("progress %+v %s", p, p.Metadata)
			}
			if f.At.IsZero() || f.Result.Output != "ok" || f.Repeated || f.Call != s.Call {
				t.Errorf("finished %+v", f)
			}
			if destructive := effect == tools.Destructive || effect == ""; destructive != (f.Ref != nil) || destructive != (s.Ref != nil) {
				t.Errorf("effect refs: started %v, finished %v", s.Ref, f.Ref)
			}
		})
	}
}

// PR-53, PR-55: a failure's row holds the redacted error.
func TestRowsOfACallThatFails(t *testing.T) {
	b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "a", Effect: tools.Readonly}, "ignored", errors.New("401 for "+canary)))
	disp := b.call("a", `{}`)
	b.types("tool_execution_started", "tool_execution_error")
	e := last[events.ToolExecutionError](b)
	if e.At.IsZero() || e.Result.Status != tools.Failed || e.Result.Output != "" || !strings.HasPrefix(e.Result.Error, "401 for [REDACTED:canary:") ||
		e.Error.Kind != tools.KindToolError || e.Error.Message != e.Result.Error || disp.Result.Error != e.Result.Error {
		t.Errorf("error %+v", e)
	}
}

// PR-56: the owner reaches the effects and the permission check with the call.
func TestOwnershipReachesThePermissionCheck(t *testing.T) {
	var got string
	b := newBench(t, tools.Config{Permission: func(_ context.Context, env tools.Env, _ *tools.Definition, _ tools.Call) error {
		got = env.Owner
		return nil
	}}, named(t, "a"))
	b.call("a", `{}`)
	if got != "o1" {
		t.Errorf("owner %q", got)
	}
}

func TestProgressIsBounded(t *testing.T) {
	var late func(string, any)
	a := tool(t, tools.Definition{Name: "a", Effect: tools.Readonly}, func(_ context.Context, inv *tools.Invocation) (any, error) {
		late = inv.Progress
		inv.Progress(strings.Repeat("é", 1<<20), make(chan int))
		for i := range 2000 {
			inv.Progress(fmt.Sprint(i), nil)
		}
		return "", nil
	})
	b := newBench(t, tools.Config{}, a)
	b.call("a", `{}`)
	late("after the end", nil)
	es := b.run.Events()
	if len(es) != 1002 {
		t.Errorf("%d events, want started, 1000 of progress, finished", len(es))
	}
	p := es[1].(events.ToolExecutionProgress)
	if len(p.Progress) > 5000 || !json.Valid(p.Metadata) {
		t.Errorf("progress of %d bytes, metadata %s", len(p.Progress), p.Metadata)
	}
	if _, ok := es[len(es)-1].(events.ToolExecutionFinished); !ok {
		t.Errorf("the last event is %T", es[len(es)-1])
	}
}
