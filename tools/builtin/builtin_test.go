package builtin_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

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

// spawner starts no child, and says that it did.
type spawner struct{}

func (spawner) Spawn(context.Context, *tools.Invocation, tools.Spawn) (events.RunID, error) {
	return events.NewIDs(nil, nil).Run(), nil
}

// past is what a run has done, by tool.
type past map[string][]tools.PastCall

func (p past) Completed(tool string) []tools.PastCall { return p[tool] }

func currentTime(t testing.TB, cfg builtin.CurrentTimeConfig) tools.Tool {
	t.Helper()
	tool, err := builtin.CurrentTime(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func publish(context.Context, builtin.Publication) (string, error) {
	return "https://example.org/x", nil
}

// Every tool of the package, with arguments that are valid.
func TestToolsConform(t *testing.T) {
	for _, tt := range []struct {
		tool tools.Tool
		args string
		c    toolstest.ToolCase
	}{
		{builtin.Finish(), `{"answer":"42"}`, toolstest.ToolCase{}},
		{builtin.Decline(), `{"because":"unsafe"}`, toolstest.ToolCase{}},
		{builtin.Think(), `{"thought":"first the ferry"}`, toolstest.ToolCase{}},
		{builtin.Calculate(), `{"expression":"6*7"}`, toolstest.ToolCase{}},
		{currentTime(t, builtin.CurrentTimeConfig{}), `{"time_zone":"Europe/Berlin"}`, toolstest.ToolCase{}},
		{builtin.DateMath(), `{"operation":"add","date":"2026-01-31","unit":"month","amount":1}`, toolstest.ToolCase{}},
		{builtin.DateMath(), `{"operation":"difference","date":"2026-01-31","unit":"month","to":"2026-02-01"}`, toolstest.ToolCase{}},
		{builtin.Dates(), `{"question":"30 days after 2026-03-01"}`, toolstest.ToolCase{}},
		{builtin.JSONQuery(), `{"document":"{\"a\":[1]}","path":"a[0]"}`, toolstest.ToolCase{}},
		{builtin.Notes(), `{"post":"buy a ferry ticket"}`, toolstest.ToolCase{Past: past{}}},
		{builtin.LoadSkill(), `{"name":"refunds"}`, toolstest.ToolCase{Skills: skills{"refunds": {Text: "Ask first.", Trust: tools.Own}}}},
		{builtin.Publish(builtin.PublishConfig{Publish: publish}), `{"name":"a.md","content":"# A","media_type":"text/markdown"}`, toolstest.ToolCase{Hostile: true}},
		{builtin.Escalate(builtin.EscalateConfig{}), `{"question":"may I?","background":"it is late"}`, toolstest.ToolCase{HandsOff: true}},
		{builtin.Wait(0), `{"seconds":60}`, toolstest.ToolCase{HandsOff: true}},
		{builtin.WaitForSignal(0), `{"name":"go","timeout_seconds":60}`, toolstest.ToolCase{HandsOff: true}},
		{builtin.Delegate("clerk"), `{"agent":"clerk","input":"x"}`, toolstest.ToolCase{HandsOff: true, Spawner: spawner{}}},
	} {
		t.Run(tt.tool.Definition().Name, func(t *testing.T) {
			tt.c.ValidArguments = json.RawMessage(tt.args)
			toolstest.TestTool(t, tt.tool, tt.c)
		})
	}
}

func TestThink(t *testing.T) {
	t.Run("SG-60 the reply is noted and nothing else", thinkSaysNoted)
}

func thinkSaysNoted(t *testing.T) {
	if r := call(t, builtin.Think(), `{"thought":"x"}`); r.Output != "noted" || r.Control != "" {
		t.Errorf("think = %+v, want output noted and no control", r)
	}
}

func TestFinish(t *testing.T) {
	t.Run("SG-62 it gives the answer, and is pinned", finishGivesTheAnswer)
}

func finishGivesTheAnswer(t *testing.T) {
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

func TestDecline(t *testing.T) {
	t.Run("SG-65 it takes four reasons and no others", declineTakesFourReasons)
}

func declineTakesFourReasons(t *testing.T) {
	for _, because := range []string{"unknowable", "not_covered", "out_of_scope", "unsafe"} {
		r := call(t, builtin.Decline(), `{"because":"`+because+`"}`)
		if got, ok := builtin.DeclinedFor(r); !ok || got != because || !builtin.IsDeclined(r) {
			t.Errorf("DeclinedFor(%+v) = %q, %v", r, got, ok)
		}
	}
	toolstest.AssertBlocked(t, toolstest.Probe{Tool: builtin.Decline(), Arguments: json.RawMessage(`{"because":"tired"}`)},
		events.BlockedInvalidArguments)
}

func TestWaitTakesOneBoundedTime(t *testing.T) {
	for _, tt := range []struct {
		args string
		want time.Duration // 0 = refused
	}{
		{`{"seconds":90}`, 90 * time.Second},
		{`{"until":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`, time.Hour},
		{`{}`, 0},
		{`{"seconds":1,"until":"2027-01-31T09:00:00Z"}`, 0},
		{`{"seconds":-1}`, 0},
		{`{"seconds":7201}`, 0},
		{`{"seconds":9223372036854775807}`, 0},
		{`{"until":"tomorrow"}`, 0},
		{`{"until":"9999-01-01T00:00:00Z"}`, 0},
	} {
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.Wait(2 * time.Hour), Arguments: json.RawMessage(tt.args)})
		off := tt.want - d.HandedOff.For
		switch {
		case tt.want == 0 && (d.State != tools.StateDone || d.Result.Error == ""):
			t.Errorf("%s: %+v, want an error", tt.args, d)
		case tt.want > 0 && (d.State != tools.StateHandedOff || d.HandedOff.Reason != events.ParkTimer || off < 0 || off > 5*time.Second || d.HandedOff.ExpiresAs == ""):
			t.Errorf("%s: %+v, want a timer of %v", tt.args, d, tt.want)
		}
	}
	d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.Wait(0), Arguments: json.RawMessage(`{"until":"2001-01-01T00:00:00Z"}`)})
	if d.State != tools.StateDone || d.Result.Output != "that moment has passed" {
		t.Errorf("a moment that has passed: %+v", d)
	}
}

func TestWaitForSignalNamesOne(t *testing.T) {
	for _, tt := range []struct {
		args string
		want time.Duration
	}{
		{`{"name":"go"}`, builtin.DefaultMaxWait},
		{`{"name":"go","timeout_seconds":5}`, 5 * time.Second},
		{`{"name":""}`, 0},
		{`{"name":"a b"}`, 0},
		{`{"name":"go","timeout_seconds":-5}`, 0},
		{`{"name":"go","timeout_seconds":99999999}`, 0},
	} {
		d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: builtin.WaitForSignal(0), Arguments: json.RawMessage(tt.args)})
		if tt.want == 0 && (d.State != tools.StateDone || d.Result.Error == "") || tt.want > 0 && (d.State != tools.StateHandedOff || d.HandedOff.Signal != "go" || d.HandedOff.For != tt.want) {
			t.Errorf("%s: %+v, want %v", tt.args, d, tt.want)
		}
	}
}

func TestDelegateNamesKnownAgents(t *testing.T) {
	tool := builtin.Delegate("clerk")
	toolstest.AssertBlocked(t, toolstest.Probe{Tool: tool, Arguments: json.RawMessage(`{"agent":"boss","input":"x"}`)}, events.BlockedInvalidArguments)
	if r := call(t, tool, `{"agent":"clerk","input":"x"}`); r.Error == "" {
		t.Errorf("without a runtime: %+v", r)
	}
}
