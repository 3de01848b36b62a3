package builtin_test

import (
	"encoding/json"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func call(t *testing.T, tool tools.Tool, args string) events.ToolResult {
	t.Helper()
	d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(args)})
	return d.Result
}

func TestToolsConform(t *testing.T) {
	for _, tt := range []struct {
		tool tools.Tool
		args string
	}{
		{builtin.Finish(), `{"answer":"42"}`},
		{builtin.Decline(), `{"because":"unsafe"}`},
		{builtin.Think(), `{"thought":"first the ferry"}`},
	} {
		t.Run(tt.tool.Definition().Name, func(t *testing.T) {
			toolstest.TestTool(t, tt.tool, toolstest.ToolCase{ValidArguments: json.RawMessage(tt.args)})
		})
	}
}

// SG-60.
func TestThinkSaysNoted(t *testing.T) {
	if r := call(t, builtin.Think(), `{"thought":"x"}`); r.Output != "noted" || r.Control != "" {
		t.Errorf("think = %+v, want output noted and no control", r)
	}
}

// SG-62.
func TestFinishGivesTheAnswer(t *testing.T) {
	r := call(t, builtin.Finish(), `{"answer":"<b>42</b> & more"}`)
	if a, ok := builtin.AnswerOf(r); !ok || a != "<b>42</b> & more" || !builtin.IsFinished(r) {
		t.Errorf("AnswerOf(%+v) = %q, %v", r, a, ok)
	}
	if !builtin.Finish().Definition().Pinned {
		t.Error("finish is not pinned")
	}
	if _, ok := builtin.AnswerOf(call(t, builtin.Think(), `{"thought":"x"}`)); ok {
		t.Error("think counts as finished")
	}
}

// SG-65.
func TestDeclineTakesFourReasons(t *testing.T) {
	for _, because := range []string{"unknowable", "not_covered", "out_of_scope", "unsafe"} {
		r := call(t, builtin.Decline(), `{"because":"`+because+`"}`)
		if got, ok := builtin.DeclinedFor(r); !ok || got != because || !builtin.IsDeclined(r) {
			t.Errorf("DeclinedFor(%+v) = %q, %v", r, got, ok)
		}
	}
	toolstest.AssertBlocked(t, toolstest.Probe{Tool: builtin.Decline(), Arguments: json.RawMessage(`{"because":"tired"}`)},
		events.BlockedInvalidArguments)
}
