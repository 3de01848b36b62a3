package loops_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

// What tools see of the past is what the model was told, in forks too: no call
// of the turn in hand, none that failed.
func TestCompleted(t *testing.T) {
	turn := func(n int, arguments ...string) []events.Payload {
		var asked []events.ToolCall
		for _, a := range arguments {
			asked = append(asked, events.ToolCall{Name: "notes", Arguments: json.RawMessage(a)})
		}
		asked = append(asked, events.ToolCall{Name: "other", Arguments: json.RawMessage(`{}`)})
		return []events.Payload{
			events.TurnStarted{Turn: n}, events.ModelCallStarted{Turn: n, Attempt: 1}, events.ModelCallFinished{Turn: n, Attempt: 1, ToolCalls: asked},
		}
	}
	done := func(turn, index int, tool string) []events.Payload {
		id := events.CallID{Turn: turn, Index: index}
		return []events.Payload{
			events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: tool},
			events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: tool, Result: events.ToolResult{Status: "completed", Output: "posted", Trust: "own"}},
		}
	}
	whole := join(
		start(`"go"`), turn(1, `{"post":"a"}`, `{"post":"b"}`),
		done(1, 1, "notes"), done(1, 2, "other"), done(1, 0, "notes"), // in the order of the request, not of the outcomes
		turn(2, `{"post":"c"}`),
		one(events.ToolExecutionBlocked{Call: events.CallID{Turn: 2}, Tool: "notes", Reason: events.BlockedPermissionDenied, Result: events.ToolResult{Status: "failed", Error: "no"}}),
		done(2, 1, "other"),
		turn(3, `{"post":"d"}`), done(3, 0, "notes"),
	)
	es := loopstest.Events(whole...)
	got := func(h *loops.History) string {
		s := ""
		for _, c := range h.Completed("notes") {
			s += fmt.Sprintf("%s=%s ", c.Arguments, c.Output)
		}
		return s
	}
	h := loops.NewHistory(loopstest.Run)
	for _, e := range es {
		if err := h.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"post":"a"}=posted {"post":"b"}=posted `
	if s := got(h); s != want {
		t.Errorf("Completed = %s, want %s", s, want)
	}
	if s := got(inherit(t, fork1, nil, es)); s != want {
		t.Errorf("of a fork: Completed = %s, want %s", s, want)
	}
	if len(h.Completed("nothing")) != 0 {
		t.Error("a tool that was never called has a past")
	}
}
