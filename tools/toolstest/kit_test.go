package toolstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// witness is a testing.TB that notes the first violation.
type witness struct {
	testing.TB
	said string
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) {
	w.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func violation(f func(testing.TB)) string {
	w := &witness{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(w)
	}()
	<-done
	return w.said
}

func made(t *testing.T, effect tools.Effect, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
	t.Helper()
	tool, err := tools.Raw(tools.Definition{Name: "made", Description: "d", Effect: effect}, nil, fn)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func works(context.Context, *tools.Invocation) (any, error) { return "ok", nil }

// PR-92: five blocked reasons and a success; a violation stops the kit.
func TestKitAcceptsAndRefuses(t *testing.T) {
	runs := 0
	count := made(t, tools.Destructive, func(context.Context, *tools.Invocation) (any, error) { runs++; return "ok", nil })
	if said := violation(func(tb testing.TB) { toolstest.TestTool(tb, count, toolstest.ToolCase{}) }); said != "" || runs != 1 {
		t.Errorf("a good tool: %q, ran %d times", said, runs)
	}
	tests := map[string]struct {
		tool tools.Tool
		c    toolstest.ToolCase
	}{
		"a failing tool":      {made(t, tools.Readonly, func(context.Context, *tools.Invocation) (any, error) { return nil, errors.New("x") }), toolstest.ToolCase{}},
		"an unclear tool":     {made(t, "", func(context.Context, *tools.Invocation) (any, error) { return nil, errors.New("x") }), toolstest.ToolCase{}},
		"arguments not valid": {made(t, tools.Readonly, works), toolstest.ToolCase{ValidArguments: json.RawMessage(`{"x":1}`)}},
		"a filter in the way": {made(t, tools.Readonly, works), toolstest.ToolCase{Filters: []tools.Filter{{Allow: []string{"other"}}}}},
	}
	for name, tt := range tests {
		if said := violation(func(tb testing.TB) { toolstest.TestTool(tb, tt.tool, tt.c) }); said == "" {
			t.Errorf("%s passes", name)
		}
	}
}

// PR-93, PR-95: the proof of not running is that there is no started event.
func TestAssertBlocked(t *testing.T) {
	p := toolstest.Probe{Tool: made(t, tools.Readonly, works), Arguments: json.RawMessage(`[]`)}
	toolstest.AssertBlocked(t, p, events.BlockedInvalidArguments)
	if said := violation(func(tb testing.TB) { toolstest.AssertBlocked(tb, p, events.BlockedToolDenied) }); !strings.Contains(said, "invalid_arguments") {
		t.Errorf("another reason: %q", said)
	}
	p.Arguments = nil
	if said := violation(func(tb testing.TB) { toolstest.AssertBlocked(tb, p, events.BlockedInvalidArguments) }); said == "" {
		t.Error("a call that runs counts as blocked")
	}
}

// PR-94.
func TestDispatchAndCollect(t *testing.T) {
	run := toolstest.NewLedger().Run()
	p := toolstest.Probe{Tool: made(t, tools.Readonly, works), Run: run}
	for range 2 { // only the events of this call
		disp, es := toolstest.DispatchAndCollect(t, p)
		if disp.Result.Output != "ok" || len(es) != 2 {
			t.Errorf("%+v, %v", disp, toolstest.TypesOf(es))
		}
	}
	// PR-96: the kit registers the tool itself; without one every name is unknown.
	toolstest.AssertBlocked(t, toolstest.Probe{Name: "made"}, events.BlockedUnknownTool)
}
