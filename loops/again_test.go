package loops_test

import (
	"encoding/json"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/tools"
)

// What certainly did not happen is made, not told: a probe that found nothing,
// and a call whose time was up before the first byte. Five times in all.
func TestCallThatDidNotHappenIsMadeAgain(t *testing.T) {
	call := events.CallID{Turn: 1}
	ref := events.EffectRef{Attempt: 1, Recovery: "probe"}
	started := func(n int) events.Payload {
		return events.ToolExecutionStarted{Call: call, Attempt: n, Tool: "pay", Ref: &ref, Arguments: json.RawMessage(`{}`)}
	}
	notRun := func(n int) events.Payload {
		return events.ToolExecutionError{Call: call, Attempt: n, Tool: "pay", Ref: &ref, Error: events.ErrorInfo{Kind: tools.KindNotRun}}
	}
	resolved := func(by string) events.Payload {
		return events.EffectResolved{Call: call, Tool: "pay", Ref: ref, State: events.EffectNotApplied, By: by}
	}
	doubt := events.ToolExecutionInDoubt{Call: call, Attempt: 1, Tool: "pay", Ref: ref}
	for _, tt := range []struct {
		name    string
		events  []events.Payload
		pending bool
	}{
		{"a probe found nothing", []events.Payload{started(1), doubt, resolved(events.ResolvedByProbe)}, true},
		{"a person says so", []events.Payload{started(1), doubt, resolved("ann")}, false},
		{"its time was up before it began", []events.Payload{started(1), notRun(1)}, true},
		{"five times", []events.Payload{started(1), notRun(1), started(2), notRun(2), started(3), notRun(3), started(4), notRun(4), started(5), notRun(5)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			es := append([]events.Payload{
				events.RunQueued{Input: json.RawMessage(`"go"`)},
				events.RunStarted{},
				events.TurnStarted{Turn: 1},
				events.ModelCallStarted{Turn: 1, Attempt: 1},
				events.ModelCallFinished{Turn: 1, Attempt: 1, ToolCalls: []events.ToolCall{{Name: "pay", Arguments: json.RawMessage(`{}`)}}},
			}, tt.events...)
			h := loopstest.MustFold(t, es...)
			if got := len(h.Pending()) == 1; got != tt.pending || len(h.InDoubt()) != 0 {
				t.Errorf("pending %v, %d in doubt; want pending %v and none in doubt", got, len(h.InDoubt()), tt.pending)
			}
		})
	}
}
