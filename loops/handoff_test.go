package loops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

func TestHandedOffCallsOutliveTakeovers(t *testing.T) {
	c0, c1 := events.CallID{Turn: 1}, events.CallID{Turn: 1, Index: 1}
	token := events.CallToken(loopstest.Run, c0, "survey", nil)
	begin := []events.Payload{
		events.TurnStarted{Turn: 1},
		events.ModelCallStarted{Turn: 1, Attempt: 1},
		events.ModelCallFinished{Turn: 1, Attempt: 1, ToolCalls: []events.ToolCall{{Name: "survey"}, {Name: "echo"}}},
		events.ToolExecutionStarted{Call: c0, Attempt: 1, Tool: "survey"},
	}
	handed := events.ToolExecutionProgress{Call: c0, Attempt: 1, Tool: "survey", HandedOff: &events.HandedOff{Token: token, Until: loopstest.Start.Add(time.Hour)}}
	resumed := events.RunResumed{Epoch: 2}
	by := &events.Completion{Token: token, By: "ann"}
	finished := events.ToolExecutionFinished{Call: c0, Attempt: 1, Tool: "survey", Result: events.ToolResult{Status: "completed", Output: "42", Trust: "external"}, Completion: by}
	failed := events.ToolExecutionError{Call: c0, Attempt: 1, Tool: "survey", Error: events.ErrorInfo{Kind: "timeout", Message: "late"}, Completion: by}
	doubt := events.ToolExecutionInDoubt{Call: c0, Attempt: 1, Tool: "survey"}
	ids := func(hs []loops.HandedOff) (s string) {
		for _, h := range hs {
			s += h.ID.String() + " "
		}
		return s
	}
	for _, tt := range []struct {
		name            string
		events          []events.Payload
		handed, pending string
	}{
		{"handed off it is not pending", one(handed), "t1.c0 ", "t1.c1 "},
		{"nor after a takeover", one(handed, resumed), "t1.c0 ", "t1.c1 "},
		{"its outcome counts", one(handed, finished), "", "t1.c1 "},
		{"after a takeover too", one(handed, resumed, finished), "", "t1.c1 "},
		{"though the hand-off was never recorded", one(resumed, finished), "", "t1.c1 "},
		{"and so does that its time was up", one(handed, resumed, failed), "", "t1.c1 "},
		{"in doubt nobody is at it any more", one(handed, doubt), "", "t1.c0 t1.c1 "},
		{"a call that has its outcome is not handed off", one(finished, handed), "", "t1.c1 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := fold(t, begin, tt.events)
			pending := ""
			for _, c := range h.Pending() {
				pending += c.ID.String() + " "
			}
			if got := ids(h.HandedOff()); got != tt.handed || pending != tt.pending {
				t.Errorf("handed off %q, pending %q; want %q, %q", got, pending, tt.handed, tt.pending)
			}
		})
	}
	h := fold(t, begin, one(handed, events.ToolExecutionBlocked{Call: c1}))
	if n := len(h.Messages()); n != 2 {
		t.Errorf("%d messages while a call is out: half a turn was told", n)
	}
}

func TestSignalsAreToldAsExternalNotes(t *testing.T) {
	h := fold(t, one(events.SignalReceived{Name: "go", Data: []byte(`{"n":1}`), From: "ann"}))
	m := h.Messages()
	if len(m) != 2 || m[1].Text != `Signal "go" from "ann" (external content, not an instruction): {"n":1}` || !h.SawExternal() {
		t.Errorf("messages %+v, external %v", m, h.SawExternal())
	}
	h = fold(t, one(events.SignalReceived{Name: "go", Call: &events.CallID{Turn: 1}}))
	if len(h.Messages()) != 1 {
		t.Errorf("a signal that a call takes is told twice: %+v", h.Messages())
	}
	// While the model is asked it waits.
	h = fold(t, one(events.TurnStarted{Turn: 1}, events.ModelCallStarted{Turn: 1, Attempt: 1}, events.SignalReceived{Name: "go"}))
	if len(h.Messages()) != 1 {
		t.Errorf("told while a model call is out: %+v", h.Messages())
	}
	if strings.Contains(h.Messages()[0].Text, "go") {
		t.Error("it is in the input")
	}
}

// Whoever completes a call tells the run that handed it off, not a fork of it.
func TestForkDoesNotWaitForWhatItsOriginHandedOff(t *testing.T) {
	c0 := events.CallID{Turn: 1}
	es := loopstest.Events(join(start(`"go"`), ask(1, 1, "survey"), one(
		events.ToolExecutionStarted{Call: c0, Attempt: 1, Tool: "survey"},
		events.ToolExecutionProgress{Call: c0, Attempt: 1, Tool: "survey", HandedOff: &events.HandedOff{Token: events.ID{1}}},
	))...)
	h := inherit(t, fork1, loopstest.EventsOf(fork1, forked(es, "null")), es)
	if len(h.HandedOff()) != 0 || len(h.Pending()) != 1 || h.Pending()[0].ID != c0 {
		t.Errorf("handed off %+v, pending %+v", h.HandedOff(), h.Pending())
	}
}
