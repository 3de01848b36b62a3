package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

func returns(t testing.TB, d tools.Definition, v any, err error) tools.Tool {
	t.Helper()
	return tool(t, d, func(context.Context, *tools.Invocation) (any, error) { return v, err })
}

// SG-26, SG-27, SG-32: what becomes of a value.
func TestResultOfAValue(t *testing.T) {
	type name string
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"text as it is", "a <b> & c", "a <b> & c"},
		{"named text", name("n"), "n"},
		{"nothing", nil, ""},
		{"a struct as JSON, not escaped for HTML", struct {
			A string `json:"a"`
		}{"<x>"}, `{"a":"<x>"}`},
		{"raw JSON", json.RawMessage(`{"big":9007199254740993}`), `{"big":9007199254740993}`},
		{"invalid UTF-8 is replaced", "a\xffb", "a\uFFFDb"},
		{"a registered secret", "key " + canary, ""},
		{"SG-32 only answer is no envelope", map[string]any{"answer": "x", "unit": "kg"}, `{"answer":"x","unit":"kg"}`},
		{"SG-32 answer that is no text", map[string]any{"answer": 1, "results": []int{}}, `{"answer":1,"results":[]}`},
		{"SG-32 results that are no list", map[string]any{"answer": "x", "results": 1}, `{"answer":"x","results":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "v", Effect: tools.Readonly, Trust: tools.External}, tt.value, nil))
			r := b.call("v", `{}`).Result
			if tt.want == "" && tt.value != nil {
				tt.want = r.Output // only that the secret did not come out, which call checks
			}
			want := events.ToolResult{Status: "completed", Output: tt.want, Trust: "external"}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// SG-27: absent when the tool declared none, and copied onto failures too.
func TestTrustIsCopied(t *testing.T) {
	for _, trust := range []tools.Trust{"", tools.Own, tools.External} {
		for _, err := range []error{nil, errors.New("x")} {
			b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "v", Effect: tools.Readonly, Trust: trust}, "", err))
			if r := b.call("v", `{}`).Result; r.Trust != string(trust) {
				t.Errorf("trust %q, want %q", r.Trust, trust)
			}
		}
	}
}

// SG-28, SG-22: micro-USD of the raw value; unmeasured is not free.
func TestCost(t *testing.T) {
	pico := func(p events.PicoUSD) *events.PicoUSD { return &p }
	tests := []struct {
		name string
		cost func(any) (int64, bool)
		want *events.PicoUSD
	}{
		{"measured", func(v any) (int64, bool) { return v.(map[string]any)["cost"].(int64), true }, pico(2500 * events.MicroUSD)},
		{"free is measured", func(any) (int64, bool) { return 0, true }, pico(0)},
		{"unmeasured", func(any) (int64, bool) { return 7, false }, nil},
		{"panics", func(any) (int64, bool) { panic("x") }, nil},
		{"negative", func(any) (int64, bool) { return -1, true }, nil},
		{"overflow", func(any) (int64, bool) { return math.MaxInt64, true }, nil},
		{"no function", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value := map[string]any{"answer": "a", "results": []any{}, "cost": int64(2500)}
			c := returns(t, tools.Definition{Name: "c", Effect: tools.Readonly}, value, nil)
			if tt.cost != nil {
				c = tools.WithCost(c, tt.cost)
			}
			r := newBench(t, tools.Config{}, c).call("c", `{}`).Result
			if diff := cmp.Diff(tt.want, r.Cost); diff != "" || r.Output != "a" {
				t.Errorf("cost %s, output %q", diff, r.Output)
			}
		})
	}
}

// SG-29, SG-32.
func TestSources(t *testing.T) {
	value := map[string]any{"answer": "The ferry leaves at 9.", "results": []any{
		map[string]any{"title": "Timetable", "url": "https://ferry.example/t", "snippet": "x"},
		"no object",
		map[string]any{"other": 1},
		map[string]any{"title": "with " + canary},
	}}
	r := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "s", Effect: tools.Readonly}, value, nil)).call("s", `{}`).Result
	if r.Output != "The ferry leaves at 9." || len(r.Sources) != 2 || r.Sources[0] != (events.Source{Title: "Timetable", URL: "https://ferry.example/t"}) {
		t.Errorf("result %+v", r)
	}
}

// SG-30: bytes, at the boundary of a character; absent when whole.
func TestTruncation(t *testing.T) {
	tests := []struct {
		name   string
		text   string
		max    int
		policy tools.TruncatePolicy
		want   *events.Truncated
		fails  bool
	}{
		{"whole", "abcd", 4, "", nil, false},
		{"cut", "abcde", 4, tools.Cut, &events.Truncated{Kept: 4, Of: 5}, false},
		{"inside a character", "aéé", 4, "", &events.Truncated{Kept: 3, Of: 5}, false},
		{"refused", "abcde", 4, tools.Refuse, nil, true},
		{"default limit", strings.Repeat("x", tools.DefaultMaxOutput+1), 0, "", &events.Truncated{Kept: tools.DefaultMaxOutput, Of: tools.DefaultMaxOutput + 1}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "o", Effect: tools.Readonly, MaxOutput: tt.max, Truncate: tt.policy}, tt.text, nil))
			r := b.call("o", `{}`).Result
			if tt.fails != (r.Status == tools.Failed) || !utf8.ValidString(r.Output) {
				t.Fatalf("result %+v", r)
			}
			if diff := cmp.Diff(tt.want, r.Truncated); diff != "" {
				t.Error(diff)
			}
			if tt.fails && (!strings.Contains(r.Error, "5 bytes") || last[events.ToolExecutionError](b).Error.Kind != tools.KindOutputTooLarge) {
				t.Errorf("error %q", r.Error)
			}
		})
	}
}

// A secret that a cut goes through is redacted first.
func TestCutNeverSplitsASecret(t *testing.T) {
	for max := 1; max < 60; max += 3 {
		b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "o", Effect: tools.Readonly, MaxOutput: max}, "the key is "+canary+" and more", nil))
		if out := b.call("o", `{}`).Result.Output; strings.Contains(out, canary[:6]) {
			t.Errorf("max %d: output %q", max, out)
		}
	}
}

func TestControlValues(t *testing.T) {
	big := strings.Repeat("y", 100)
	tests := []struct {
		name  string
		value any
		want  events.ToolResult
	}{
		{"finish with text", tools.Finish("done"), events.ToolResult{Status: "completed", Output: "done", Control: "finish"}},
		{"finish with a value", tools.Finish(map[string]int{"n": 1}), events.ToolResult{Status: "completed", Output: `{"n":1}`, Control: "finish"}},
		{"decline", tools.Decline("unsafe"), events.ToolResult{Status: "completed", Output: "unsafe", Control: "decline"}},
		{"an output that would be cut does not finish", tools.Finish(big), events.ToolResult{
			Status: "failed", Error: "the output has 100 bytes, at most 50 are allowed: ask for less",
		}},
		{"an output that has no form does not finish", tools.Finish(make(chan int)), events.ToolResult{
			Status: "failed", Error: "the result could not be encoded: json: unsupported type: chan int",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tools.Config{}, returns(t, tools.Definition{Name: "f", Effect: tools.Readonly, MaxOutput: 50}, tt.value, nil))
			if diff := cmp.Diff(tt.want, b.call("f", `{}`).Result); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Result middleware changes text only; if it fails, nothing unlooked-at comes out.
func TestResultMiddleware(t *testing.T) {
	change := func(_ context.Context, _ tools.Call, r events.ToolResult) (events.ToolResult, error) {
		cost := events.PicoUSD(1)
		return events.ToolResult{Status: tools.Failed, Output: "new " + canary, Control: "finish", Trust: "own", Cost: &cost}, nil
	}
	fails := func(context.Context, tools.Call, events.ToolResult) (events.ToolResult, error) {
		return events.ToolResult{}, errors.New("no")
	}
	panics := func(context.Context, tools.Call, events.ToolResult) (events.ToolResult, error) { panic("boom") }
	for _, effect := range []tools.Effect{tools.Readonly, tools.Destructive} {
		b := newBench(t, tools.Config{ResultMiddleware: []tools.ResultMiddleware{change}}, returns(t, tools.Definition{Name: "m", Effect: effect}, "old", nil))
		r := b.call("m", `{}`).Result
		if r.Status != tools.Completed || !strings.HasPrefix(r.Output, "new [REDACTED:canary:") || r.Control != "" || r.Trust != "" || r.Cost != nil {
			t.Errorf("%s: result %+v", effect, r)
		}
		for _, bad := range []tools.ResultMiddleware{fails, panics} {
			b := newBench(t, tools.Config{ResultMiddleware: []tools.ResultMiddleware{bad}}, returns(t, tools.Definition{Name: "m", Effect: effect}, "private", nil))
			r := b.call("m", `{}`).Result
			if strings.Contains(r.Output+r.Error, "private") || !strings.Contains(r.Output+r.Error, "withheld") {
				t.Errorf("%s: result %+v", effect, r)
			}
			if (r.Status == tools.Completed) != (effect == tools.Destructive) {
				t.Errorf("%s: status %s: what took effect is never told as failed", effect, r.Status)
			}
		}
	}
}

// A result that is longer in an event than in memory is cut so that the event
// can be recorded: else its run could not go on.
func TestResultFitsIntoAnEvent(t *testing.T) {
	sources := make([]any, 500)
	for i := range sources {
		sources[i] = map[string]any{"title": strings.Repeat("<\x01", 600), "url": "https://example.com/" + strings.Repeat("&", 2000)}
	}
	for name, text := range map[string]string{
		"control characters": strings.Repeat("\x00", 1<<20), "markup": strings.Repeat("<&>", 1<<18), "quotes": strings.Repeat(`"\`, 1<<19),
		"separators": strings.Repeat("\u2028", 1<<18), "words": strings.Repeat("ä word ", 1<<17), "faces": strings.Repeat("\U0001F600", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			d := tools.Definition{Name: "v", Effect: tools.Readonly, MaxOutput: 1 << 20}
			b := newBench(t, tools.Config{}, returns(t, d, map[string]any{"answer": text, "results": sources}, nil))
			r := b.call("v", `{}`).Result
			n, err := json.Marshal(events.ToolExecutionFinished{Tool: "v", Result: r})
			if err != nil || len(n) > events.MaxDataBytes {
				t.Errorf("%d bytes in the event, %v; at most %d", len(n), err, events.MaxDataBytes)
			}
			if r.Truncated == nil || r.Truncated.Of != len(text) || r.Truncated.Kept != len(r.Output) || !utf8.ValidString(r.Output) || !strings.HasPrefix(text, r.Output) {
				t.Errorf("%+v, %d bytes", r.Truncated, len(r.Output))
			}
			if len(n) < 100<<10 || len(r.Sources) == 0 {
				t.Errorf("only %d bytes and %d sources are left", len(n), len(r.Sources))
			}
			d.Truncate = tools.Refuse
			b = newBench(t, tools.Config{}, returns(t, d, text, nil))
			if r := b.call("v", `{}`).Result; r.Status != tools.Failed || !strings.Contains(r.Error, "ask for less") {
				t.Errorf("refused: %+v", r.Error)
			}
		})
	}
}
