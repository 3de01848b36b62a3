package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

type discard struct{}

func (discard) Record(context.Context, events.Payload) error { return nil }

type addIn struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Note string `json:"note,omitempty"`
}

// BenchmarkDispatch measures one readonly call in process, without a ledger.
func BenchmarkDispatch(b *testing.B) {
	tool, err := tools.New(tools.Definition{Name: "add", Description: "Adds.", Effect: tools.Readonly},
		func(_ context.Context, _ *tools.Invocation, in addIn) (map[string]int, error) {
			return map[string]int{"sum": in.A + in.B}, nil
		})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, tool)
}

// BenchmarkDispatchRaw is the same without decoding.
func BenchmarkDispatchRaw(b *testing.B) {
	tool, err := tools.Raw(tools.Definition{
		Name: "add", Description: "Adds.", Effect: tools.Readonly,
		Args: []tools.Arg{{Name: "a", Type: tools.Integer}, {Name: "b", Type: tools.Integer}, {Name: "note", Type: tools.String}},
	}, nil, func(context.Context, *tools.Invocation) (any, error) { return "3", nil })
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, tool)
}

// BenchmarkDispatchSchema is the same with a foreign JSON Schema.
func BenchmarkDispatchSchema(b *testing.B) {
	tool, err := tools.Raw(tools.Definition{Name: "add", Description: "Adds.", Effect: tools.Readonly},
		json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"note":{"type":"string"}},"required":["a","b"]}`),
		func(context.Context, *tools.Invocation) (any, error) { return "3", nil })
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, tool)
}

func benchmark(b *testing.B, tool tools.Tool) {
	b.Helper()
	reg, err := tools.NewRegistry(tool)
	if err != nil {
		b.Fatal(err)
	}
	d := tools.NewDispatcher(reg, tools.Config{})
	env := tools.Env{Recorder: discard{}}
	call := tools.Call{Name: "add", Arguments: json.RawMessage(`{"a":1,"b":2,"note":"for the trip"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if disp, err := d.Dispatch(b.Context(), env, call); err != nil || disp.Result.Status != tools.Completed {
			b.Fatal(disp, err)
		}
	}
}
