package loops_test

import (
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
)

// A worker that takes over a run folds its events and asks the loop: nothing
// about a crash is special.
func ExampleHistory() {
	h := loops.NewHistory(loopstest.Run)
	for _, e := range loopstest.Events(
		events.RunQueued{Agent: "refunds", Input: json.RawMessage(`"refund order 7"`)},
		events.RunStarted{Loop: singleshot.Name},
		events.TurnStarted{Turn: 1},
		events.ModelCallStarted{Turn: 1, Attempt: 1},
		events.ModelCallFinished{Turn: 1, Attempt: 1, ToolCalls: []events.ToolCall{
			{Name: "lookup_order", Arguments: json.RawMessage(`{"order_id":"7"}`)},
		}},
		events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "lookup_order"},
		events.RunResumed{Worker: "b", Epoch: 2}, // the first worker died here
	) {
		if err := h.Apply(e); err != nil {
			fmt.Println(err)
			return
		}
	}
	step, err := singleshot.New().Next(h)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range step.(loops.CallTools).Calls {
		fmt.Printf("call %s: %s%s, attempt %d\n", c.ID, c.Name, c.Arguments, c.Attempt)
	}
	// Output:
	// call t1.c0: lookup_order{"order_id":"7"}, attempt 2
}

func ExampleHistory_Apply() {
	h := loops.NewHistory(loopstest.Run)
	es := loopstest.Events(events.RunQueued{Input: json.RawMessage(`"hello"`)}, events.RunStarted{}, events.TurnStarted{Turn: 1})
	fmt.Println(h.Apply(es[0]))
	err := h.Apply(es[2])
	fmt.Println(err)
	// Output:
	// <nil>
	// fold run 01K80000000000000000000001 seq 3: seq is 3, want 2: events are missing
}
