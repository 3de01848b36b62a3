package script_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/script"
)

// A script asks for one step after the other. Here nobody performs them: the
// history says what was asked for and what came of it, and the script is asked
// what comes next, as a worker does that takes the run over.
func ExampleNew() {
	type Claim struct{ Charge string }
	refunds := script.New(script.Config{Name: "refunds", Version: 1}, func(s *script.Script, in Claim) (any, error) {
		answer, err := s.Model(script.Ask{Text: "Is the claim about " + in.Charge + " justified?"})
		if err != nil || answer.Text != "yes" {
			return "refused", err
		}
		s.Sleep(24 * time.Hour)
		return "refunded", s.Tool("refund", map[string]any{"charge": in.Charge}).Err()
	})

	happened := []events.Payload{
		events.RunQueued{Input: json.RawMessage(`{"Charge":"ch_1"}`)},
		events.RunStarted{},
		events.StepPlanned{Step: 1, Op: events.OpModel, Turn: 1, Text: "Is the claim about ch_1 justified?"},
		events.ModelCallStarted{Turn: 1, Attempt: 1},
		events.ModelCallFinished{Turn: 1, Attempt: 1, Text: "yes"},
		events.StepPlanned{Step: 2, Op: events.OpCalls, Turn: 2, Calls: []events.ToolCall{{Name: loops.SleepTool, Arguments: json.RawMessage(`{"ms":86400000}`)}}},
		events.ToolExecutionStarted{Call: events.CallID{Turn: 2}, Attempt: 1},
		events.ToolExecutionFinished{Call: events.CallID{Turn: 2}, Attempt: 1, Result: events.ToolResult{Status: "completed", Trust: "own"}},
	}
	for _, n := range []int{2, 3, 5, 8} {
		h, err := loopstest.Fold(happened[:n]...)
		if err != nil {
			fmt.Println(err)
			return
		}
		step, err := refunds.Next(h)
		switch s := step.(type) {
		case loops.Plan:
			fmt.Println("plan:", loops.DescribeStep(s.Step), err)
		default:
			fmt.Printf("%T %v\n", step, err)
		}
	}
	// Output:
	// plan: a question to the model: "Is the claim about ch_1 justified?" <nil>
	// loops.CallModel <nil>
	// plan: a sleep {"ms":86400000} <nil>
	// plan: a call of refund {"charge":"ch_1"} <nil>
}
