package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// ask calls a tool without a run, as an example may.
func ask(tool tools.Tool, args string) {
	got, err := tool.Call(context.Background(), &tools.Invocation{Arguments: json.RawMessage(args)})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(got)
}

func ExampleCalculate() {
	tool := builtin.Calculate()
	ask(tool, `{"expression": "0.1 + 0.2"}`)
	ask(tool, `{"expression": "-2^2 + sqrt(2)^2"}`)
	ask(tool, `{"expression": "2^53 + 1"}`)
	// Output:
	// 0.3
	// -2
	// error: invalid arguments for calculate: a whole number beyond 2^53 (9007199254740992) is refused, because not all of them can be told apart: work with smaller numbers
}

func ExampleDateMath() {
	tool := builtin.DateMath()
	ask(tool, `{"operation": "add", "date": "2026-01-31", "unit": "month", "amount": 1}`)
	ask(tool, `{"operation": "difference", "date": "2026-01-31", "unit": "month", "to": "2026-02-01"}`)
	// Output:
	// 2026-02-28
	// 1 month
}

func ExampleDates() {
	ask(builtin.Dates(), `{"question": "days from 2026-03-01 to 2026-09-09"}`)
	// Output: 192 days
}

func ExampleCurrentTime() {
	tool, err := builtin.CurrentTime(builtin.CurrentTimeConfig{
		DefaultTimeZone: "Europe/Berlin",
		Now:             func() time.Time { return time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(tool, `{}`)
	// Output: {2026-12-24T18:00:00+01:00 Europe/Berlin Thursday 1798131600}
}

// Tools are offered only by a registry that the host has put them in.
func Example() {
	reg, err := tools.NewRegistry(
		builtin.Finish(), builtin.Decline(), builtin.Think(), builtin.Calculate(), builtin.DateMath(), builtin.JSONQuery(), builtin.Notes(),
		builtin.Escalate(builtin.EscalateConfig{OnEscalate: func(_ context.Context, e builtin.Escalation) error {
			return fmt.Errorf("mail %q and %s to somebody", e.Question, e.Token)
		}}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range reg.Tools() {
		d := t.Definition()
		fmt.Println(d.Name, d.Effect, d.Pinned)
	}
	// Output:
	// finish readonly true
	// decline readonly false
	// think readonly false
	// calculate readonly false
	// date_math readonly false
	// json_query readonly false
	// notes readonly false
	// escalate idempotent true
}
