package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

type wide struct {
	N     int            `json:"n,omitempty"`
	Small int8           `json:"small,omitempty"`
	U     uint           `json:"u,omitempty"`
	F     float64        `json:"f,omitempty"`
	S     string         `json:"s,omitempty"`
	B     bool           `json:"b,omitempty"`
	L     []string       `json:"l,omitempty"`
	Any   any            `json:"any,omitempty"`
	M     map[string]any `json:"m,omitempty"`
	When  *time.Time     `json:"when,omitempty"`
}

// flat has only plain fields, so that the fast rules are used.
type flat struct {
	N int     `json:"n,omitempty"`
	U uint8   `json:"u,omitempty"`
	F float64 `json:"f,omitempty"`
	S *string `json:"s,omitempty"`
	R bool    `json:"r"`
}

func echoTools(t testing.TB) []tools.Tool {
	t.Helper()
	full, err := tools.New(tools.Definition{Name: "full", Description: "d", Effect: tools.Readonly},
		func(_ context.Context, _ *tools.Invocation, in wide) (wide, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	quick, err := tools.New(tools.Definition{Name: "quick", Description: "d", Effect: tools.Readonly},
		func(_ context.Context, _ *tools.Invocation, in flat) (flat, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tools.Raw(tools.Definition{
		Name: "raw", Description: "d", Effect: tools.Readonly,
		Args: []tools.Arg{
			{Name: "n", Type: tools.Integer},
			{Name: "f", Type: tools.Number},
			{Name: "s", Type: tools.String},
			{Name: "b", Type: tools.Boolean},
			{Name: "e", Type: tools.Enum, Options: []string{"x", "y"}},
			{Name: "o", Type: tools.Object},
			{Name: "a", Type: tools.Array},
		},
	}, nil, func(_ context.Context, inv *tools.Invocation) (any, error) { return inv.Arguments, nil })
	if err != nil {
		t.Fatal(err)
	}
	return []tools.Tool{full, quick, raw}
}

func TestBadArguments(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	tests := []struct{ name, tool, args, says string }{
		{"wrong type", "raw", `{"n":"1"}`, `"n" must be integer, got string`},
		{"a fraction", "raw", `{"n":1.5}`, `"n" must be integer, got a fraction`},
		{"null for an optional one", "raw", `{"s":null}`, "leave it out instead"},
		{"enum", "raw", `{"e":"z"}`, "must be one of x, y"},
		{"enum of a number", "raw", `{"e":1}`, "must be one of x, y, got number"},
		{"object", "raw", `{"o":[]}`, `"o" must be object, got array`},
		{"all problems at once", "raw", `{"n":"1","s":1,"zz":0}`, `"s" must be string, got number; argument "zz" is not declared, want a, b`},
		{"missing", "quick", `{}`, `"r" is required`},
		{"unknown", "quick", `{"r":true,"q":1}`, `"q" is not declared`},
		{"unknown by case", "quick", `{"R":true,"r":true}`, `"R" is not declared`},
		{"too big for the field", "quick", `{"r":true,"u":256}`, `"u": number 256 does not fit into uint8`},
		{"negative for unsigned", "quick", `{"r":true,"u":-1}`, `"u"`},
		{"beyond int64", "quick", `{"r":true,"n":9223372036854775808}`, `"n"`},
		{"nested schema", "full", `{"l":[1]}`, "/l/0"},
		{"no time", "full", `{"when":"noon"}`, "noon"},
		{"int8 range", "full", `{"small":300}`, "small"},
		{"duplicate", "raw", `{"n":1,"n":2}`, "duplicate"},
		{"duplicate inside", "raw", `{"o":{"a":1,"a":2}}`, "duplicate"},
		{"NaN", "raw", `{"f":NaN}`, "want one JSON object"},
		{"out of range", "raw", `{"f":1e400}`, "out of range"},
		{"exponent bomb", "full", `{"any":1e999999999}`, "out of range"},
		{"tiny exponent bomb is zero", "raw", `{"f":1e-999999999}`, ""},
		{"digits without end", "full", `{"any":` + strings.Repeat("9", 1000) + `}`, "1000 digits"},
		{"invalid UTF-8", "raw", "{\"s\":\"\xff\"}", "UTF-8"},
		{"lone surrogate", "raw", `{"s":"\ud800"}`, "surrogate"},
		{"two values", "raw", `{} {}`, "want one JSON object"},
		{"cut off", "raw", `{"s":"`, "want one JSON object"},
		{"blank", "raw", " ", "want one JSON object"},
		{"too deep", "full", `{"any":` + deep + `}`, "want one JSON object"},
		{"megabytes", "raw", `{"s":"` + strings.Repeat("x", 2<<20) + `"}`, "bytes, at most"},
		{"empty name", "raw", `{"":1}`, `"" is not declared`},
		{"escaped name", "raw", `{"\u006e":"1"}`, `"n" must be integer`},
		{"secret in a name", "raw", `{"` + canary + `":1}`, "is not declared"},
	}
	all := echoTools(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tools.Config{}, all...)
			if strings.Contains(tt.args, canary) {
				b.t = discardSecretCheck{t} // arguments as recorded are redacted before they come here
			}
			disp := b.call(tt.tool, tt.args)
			if tt.says == "" {
				if disp.Blocked != "" {
					t.Fatalf("blocked: %s", disp.Result.Error)
				}
				return
			}
			if disp.Blocked != events.BlockedInvalidArguments || disp.Detail == "" || !strings.Contains(disp.Result.Error, tt.says) {
				t.Errorf("blocked %q detail %q: %s\nwant it to say %s", disp.Blocked, disp.Detail, disp.Result.Error, tt.says)
			}
			if len(disp.Result.Error) > 5<<10 || strings.Contains(disp.Result.Error, canary) {
				t.Errorf("error of %d bytes: %.300s", len(disp.Result.Error), disp.Result.Error)
			}
			e := last[events.ToolExecutionBlocked](b)
			if raw, err := json.Marshal(e); err != nil || len(raw) > 128<<10 {
				t.Errorf("event of %d bytes, %v", len(raw), err)
			}
		})
	}
}

// discardSecretCheck lets a call with a planted secret in its recorded
// arguments pass; the test looks at the error text itself.
type discardSecretCheck struct{ testing.TB }

func (discardSecretCheck) Errorf(string, ...any) {}

func TestMalformedCall(t *testing.T) {
	b := newBench(t, tools.Config{}, echoTools(t)...)
	disp := b.dispatch(tools.Call{Name: "raw", Arguments: json.RawMessage(`"{'n': 1}"`), Malformed: true})
	if disp.Detail != tools.DetailMalformed || string(last[events.ToolExecutionBlocked](b).Arguments) != `"{'n': 1}"` {
		t.Errorf("%+v", disp)
	}
}

// Big integers reach the tool and come back whole, in every kind of field.
func TestBigIntegersStayWhole(t *testing.T) {
	b := newBench(t, tools.Config{}, echoTools(t)...)
	for name, args := range map[string]string{
		"full":  `{"any":12345678901234567890123,"m":{"id":9007199254740993},"n":9223372036854775807}`,
		"quick": `{"n":9007199254740993,"r":true}`,
		"raw":   `{"n":123456789012345678901234567890,"o":{"id":9007199254740993}}`,
	} {
		disp := b.call(name, args)
		for digits := range strings.FieldsFuncSeq(args, func(r rune) bool { return r < '0' || r > '9' }) {
			if !strings.Contains(disp.Result.Output, digits) {
				t.Errorf("%s: %s became %s %s", name, args, disp.Result.Output, disp.Result.Error)
			}
		}
	}
}

type nastyError struct{ p *int }

func (e nastyError) Error() string { return fmt.Sprint(*e.p) }

type cycle struct{ Next *cycle }

type badMarshal struct{}

func (badMarshal) MarshalJSON() ([]byte, error) { panic("marshal " + canary) }

// Whatever a tool does, a readonly call gives a failed result that a model can
// act on, a destructive one never pretends to know.
func TestToolsThatMisbehave(t *testing.T) {
	loop := &cycle{}
	loop.Next = loop
	tests := []struct {
		name string
		fn   func(context.Context, *tools.Invocation) (any, error)
		kind string
		says string
		// sent: the value came back, so a destructive call has been applied.
		sent bool
	}{
		{"panic", func(context.Context, *tools.Invocation) (any, error) { panic("boom " + canary) }, tools.KindPanic, "boom", false},
		{"panic nil", func(context.Context, *tools.Invocation) (any, error) { panic(nil) }, tools.KindPanic, "nil", false}, //nolint:govet // on purpose
		{"panic with an error", func(context.Context, *tools.Invocation) (any, error) { panic(errors.New("inner")) }, tools.KindPanic, "inner", false},
		{"nil map", func(context.Context, *tools.Invocation) (any, error) {
			return nil, write(nil)
		}, tools.KindPanic, "nil map", false},
		{"index", func(_ context.Context, inv *tools.Invocation) (any, error) { return inv.Arguments[1000], nil }, tools.KindPanic, "index out of range", false},
		{"goexit", func(context.Context, *tools.Invocation) (any, error) { runtime.Goexit(); return nil, nil }, tools.KindPanic, "goroutine", false},
		{"an error that panics", func(context.Context, *tools.Invocation) (any, error) { return nil, nastyError{} }, tools.KindToolError, "cannot say why", false},
		{"an error without text", func(context.Context, *tools.Invocation) (any, error) { return nil, errors.New("") }, tools.KindToolError, "without saying why", false},
		{"an error that is not UTF-8", func(context.Context, *tools.Invocation) (any, error) { return nil, errors.New("\xff\xfe") }, tools.KindToolError, "\uFFFD", false},
		{"an endless error", func(context.Context, *tools.Invocation) (any, error) {
			return nil, errors.New(strings.Repeat("e", 1<<20))
		}, tools.KindToolError, "eee", false},
		{"cycle", func(context.Context, *tools.Invocation) (any, error) { return loop, nil }, tools.KindUnencodable, "cycle", true},
		{"channel", func(context.Context, *tools.Invocation) (any, error) { return make(chan int), nil }, tools.KindUnencodable, "unsupported type", true},
		{"NaN", func(context.Context, *tools.Invocation) (any, error) { return math.NaN(), nil }, tools.KindUnencodable, "NaN", true},
		{"marshal panics", func(context.Context, *tools.Invocation) (any, error) { return badMarshal{}, nil }, tools.KindUnencodable, "panic", true},
		{"raw that is no JSON", func(context.Context, *tools.Invocation) (any, error) { return json.RawMessage("{"), nil }, tools.KindUnencodable, "no JSON", true},
		{"nil raw", func(context.Context, *tools.Invocation) (any, error) { return json.RawMessage(nil), nil }, tools.KindUnencodable, "no JSON", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			cfg := tools.Config{Logger: logTo(&log)}
			b := newBench(t, cfg, tool(t, tools.Definition{Name: "m", Effect: tools.Readonly}, tt.fn))
			r := b.call("m", `{}`).Result
			e := last[events.ToolExecutionError](b)
			if r.Status != tools.Failed || e.Error.Kind != tt.kind || !strings.Contains(r.Error, tt.says) || len(r.Error) > 5<<10 {
				t.Errorf("kind %q, error %.200q, want %q, %q", e.Error.Kind, r.Error, tt.kind, tt.says)
			}
			b = newBench(t, cfg, tool(t, tools.Definition{Name: "m", Effect: tools.Destructive}, tt.fn))
			disp := b.call("m", `{}`)
			if tt.sent {
				if disp.State != tools.StateDone || disp.Result.Status != tools.Completed || !strings.Contains(disp.Result.Output, "it took effect") {
					t.Errorf("destructive: %+v, want it told as done", disp)
				}
			} else if disp.State != tools.StateInDoubt || disp.Cause == "" {
				t.Errorf("destructive: state %d cause %q, want in doubt", disp.State, disp.Cause)
			}
			if strings.Contains(log.String(), canary) {
				t.Errorf("the secret is in the log: %s", log.String())
			}
		})
	}
}

// A tool that ignores its context does not hold the run.
func TestTimeoutOfAReadonlyCall(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			a := tool(t, tools.Definition{Name: "a", Effect: tools.Readonly, Timeout: time.Minute}, func(ctx context.Context, _ *tools.Invocation) (any, error) {
				if deaf {
					<-release
					return "late", nil
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			b := newBench(t, tools.Config{}, a)
			start := time.Now()
			r := b.call("a", `{}`).Result
			if e := last[events.ToolExecutionError](b); e.Error.Kind != tools.KindTimeout || !strings.Contains(r.Error, "1m0s") {
				t.Errorf("deaf %v: %+v", deaf, e)
			}
			if took := time.Since(start); took > time.Minute+tools.DefaultGrace {
				t.Errorf("deaf %v: it took %v", deaf, took)
			}
			close(release)
			if err := b.d.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A cancelled readonly call has no outcome: it is made again. One that has a
// result all the same is recorded.
func TestCancelledReadonlyCall(t *testing.T) {
	why := errors.New("handover")
	for _, has := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		a := tool(t, tools.Definition{Name: "a", Effect: tools.Readonly}, func(ctx context.Context, _ *tools.Invocation) (any, error) {
			cancel(why)
			if has {
				return "ok", nil
			}
			return nil, ctx.Err()
		})
		b := newBench(t, tools.Config{}, a)
		disp, err := b.d.Dispatch(ctx, b.run.Env(), tools.Call{Name: "a"})
		if has {
			b.types("tool_execution_started", "tool_execution_finished")
			if err != nil || disp.Result.Output != "ok" {
				t.Errorf("Dispatch = %+v, %v", disp, err)
			}
			continue
		}
		b.types("tool_execution_started")
		if !errors.Is(err, why) {
			t.Errorf("err = %v, want the cause", err)
		}
		if _, err := b.d.Dispatch(ctx, b.run.Env(), tools.Call{Name: "a"}); !errors.Is(err, why) {
			t.Errorf("dispatch with a dead context = %v", err)
		}
	}
}

type brokenRecorder struct{}

func (brokenRecorder) Record(context.Context, events.Payload) error { return errors.New("disk full") }

func TestRecorderFailureIsAnError(t *testing.T) {
	ran := false
	b := newBench(t, tools.Config{}, tool(t, tools.Definition{Name: "a", Effect: tools.Readonly}, func(context.Context, *tools.Invocation) (any, error) {
		ran = true
		return "", nil
	}))
	for _, name := range []string{"a", "nope"} {
		_, err := b.d.Dispatch(t.Context(), tools.Env{Recorder: brokenRecorder{}}, tools.Call{Name: name})
		if err == nil || !strings.Contains(err.Error(), "disk full") || ran {
			t.Errorf("%s: err = %v, ran = %v", name, err, ran)
		}
	}
}

func logTo(w *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func write(m map[string]int) error {
	m["a"] = 1
	return nil
}
