package tools_test

import (
	"context"
	"encoding/json"
	"strings"
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

type addOut struct {
	Sum int `json:"sum"`
}

const addArguments = `{"a":1,"b":2,"note":"for the trip"}`

// BenchmarkDispatch measures one readonly call in process, without a ledger: by
// how the tool is declared, by what stands around it, by what it returns.
func BenchmarkDispatch(b *testing.B) {
	said := func(text string) func(context.Context, *tools.Invocation) (any, error) {
		return func(context.Context, *tools.Invocation) (any, error) { return text, nil }
	}
	smallest := raw(b, tools.Definition{}, "", said("ok"))
	declared := tools.Definition{Args: []tools.Arg{{Name: "a", Type: tools.Integer}, {Name: "b", Type: tools.Integer}, {Name: "note", Type: tools.String}}}
	schema := `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"note":{"type":"string"}},"required":["a","b"]}`
	typed, err := tools.New(tools.Definition{Name: "add", Description: "Adds.", Effect: tools.Readonly},
		func(_ context.Context, _ *tools.Invocation, in addIn) (addOut, error) {
			return addOut{in.A + in.B}, nil
		})
	if err != nil {
		b.Fatal(err)
	}
	around := tools.Config{
		Filters:        []tools.Filter{{Deny: []string{"other"}}},
		CallMiddleware: []tools.CallMiddleware{func(_ context.Context, c tools.Call) (tools.Call, error) { return c, nil }},
		ResultMiddleware: []tools.ResultMiddleware{
			func(_ context.Context, _ tools.Call, r events.ToolResult) (events.ToolResult, error) { return r, nil },
		},
		Permission: func(context.Context, tools.Env, *tools.Definition, tools.Call) error { return nil },
		Validate:   func(context.Context, *tools.Definition, tools.Call) error { return nil },
	}
	for _, bb := range []struct {
		name string
		tool tools.Tool
		args string
		cfg  tools.Config
	}{
		{"smallest", smallest, "", tools.Config{}},
		{"declared", raw(b, declared, "", said("3")), addArguments, tools.Config{}},
		{"schema", raw(b, tools.Definition{}, schema, said("3")), addArguments, tools.Config{}},
		{"typed", typed, addArguments, tools.Config{}},
		{"typed/middleware", typed, addArguments, around},
		{"result/1KiB", raw(b, tools.Definition{}, "", said(text(1<<10))), "", tools.Config{}},
		{"result/64KiB", raw(b, tools.Definition{}, "", said(text(64<<10))), "", tools.Config{}},
	} {
		b.Run(bb.name, func(b *testing.B) { benchmark(b, bb.tool, bb.args, bb.cfg) })
	}
}

func raw(b *testing.B, d tools.Definition, schema string, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
	b.Helper()
	d.Name, d.Description, d.Effect = "add", "Adds.", tools.Readonly
	t, err := tools.Raw(d, json.RawMessage(schema), fn)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// text is prose of n bytes with what a redactor looks at twice, and nothing that
// is a secret: a test of the same would not be of what most calls cost.
func text(n int) string {
	const prose = `The order 4711 of Ada Quill was paid on 2026-01-15 by card ending in 4242; see https://pay.example.org/orders/4711?view=full and ` +
		`her mail of 09:20: "please send it to the quay, not to the attic". `
	return strings.Repeat(prose, 1+n/len(prose))[:n]
}

func benchmark(b *testing.B, tool tools.Tool, args string, cfg tools.Config) {
	b.Helper()
	reg, err := tools.NewRegistry(tool)
	if err != nil {
		b.Fatal(err)
	}
	d := tools.NewDispatcher(reg, cfg)
	env := tools.Env{Recorder: discard{}}
	call := tools.Call{Name: "add", Arguments: json.RawMessage(args)}
	b.ReportAllocs()
	for b.Loop() {
		if disp, err := d.Dispatch(b.Context(), env, call); err != nil || disp.Result.Status != tools.Completed || disp.Result.Truncated != nil {
			b.Fatal(disp, err)
		}
	}
}
