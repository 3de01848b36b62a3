package toolstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// malformed are arguments that no tool may ever see.
func malformed() []string {
	return []string{
		`[]`, `"text"`, `null`, `7`, `{"a":1,"a":2}`, `{`, `{} {}`, ` `,
		`{"a":NaN}`, `{"a":Infinity}`, `{"a":1e400}`, `{"a":` + strings.Repeat("9", 1000) + `}`,
		"{\"a\":\"\xff\"}", `{"a":"\ud800"}`,
		`{"a":"` + strings.Repeat("x", tools.DefaultMaxArguments) + `"}`,
		strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
	}
}

// samples has a value of each JSON type.
var samples = map[tools.ArgType]string{
	tools.String: `"toolstest"`, tools.Number: `1.5`, tools.Boolean: `true`, tools.Array: `[1]`, tools.Object: `{"toolstest":1}`,
}

// badArguments makes calls that must not reach the tool.
func badArguments(tb testing.TB, p Probe) {
	tb.Helper()
	blocked := func(args string) {
		tb.Helper()
		invalid := p
		invalid.Arguments = json.RawMessage(args)
		AssertBlocked(tb, invalid, events.BlockedInvalidArguments)
	}
	for _, args := range malformed() {
		blocked(args)
	}
	d := p.Tool.Definition()
	valid := members(tb, p.Arguments)
	if closed(d) {
		blocked(object(valid, "toolstest_no_such_argument", `1`))
	}
	for _, a := range d.Args {
		if a.Required {
			blocked(object(valid, a.Name, ""))
			blocked(object(valid, a.Name, `null`))
		}
		if v, ok := valid[a.Name]; ok {
			twice := object(valid, a.Name, string(v))
			blocked(strings.TrimSuffix(twice, "}") + "," + strings.Trim(object(nil, a.Name, string(v)), "{"))
		}
		for typ, sample := range samples {
			if fits := typ == a.Type || a.Type == tools.Object; !fits {
				blocked(object(valid, a.Name, sample))
			}
		}
	}
}

// closed reports whether d allows no arguments but those it declares.
func closed(d *tools.Definition) bool {
	var s struct {
		Additional json.RawMessage `json:"additionalProperties"`
	}
	return json.Unmarshal(d.JSONSchema(), &s) == nil && string(s.Additional) == "false" || bytes.Equal(s.Additional, []byte(`{"not":{}}`))
}

// odd are values of the right type that nobody expected.
func odd(t tools.ArgType) []string {
	switch t {
	case tools.String, tools.Object:
		return []string{
			`""`, `" "`, `"\u0000"`, `"\ufeff\u202e\u2028"`, `"\ud83d\ude00"`, `"NaN"`, `"-1"`, `"1e999999999"`, `"9^9^9^9"`, `"null"`, `"{}"`,
			`"../../etc/passwd"`, `"%s%n{{.}}${x}"`, `"' OR 1=1 --"`, `"2026-02-30"`, `"99999-12-31T99:99:99Z"`,
			`"` + strings.Repeat("((((", 5_000) + `"`, `"` + strings.Repeat("9", 20_000) + `"`, `"` + strings.Repeat("text ", 40_000) + `"`,
		}
	case tools.Integer:
		return []string{`0`, `-1`, `9007199254740993`, `9223372036854775807`, `-9223372036854775808`, `123456789012345678901234567890`}
	case tools.Number:
		return []string{`0`, `-0.0`, `-1`, `1e-300`, `1e300`, `-1.7e308`, `9007199254740993`}
	case tools.Array:
		return []string{`[]`, `[null]`, `[[[]]]`, `[` + strings.Repeat("1,", 50_000) + `1]`}
	}
	return nil
}

// oddArguments makes calls that may reach the tool: whatever it makes of them,
// it does not crash, and says what is wrong.
func oddArguments(tb testing.TB, p Probe) {
	tb.Helper()
	valid := members(tb, p.Arguments)
	for _, a := range p.Tool.Definition().Args {
		for _, v := range odd(a.Type) {
			q := p
			q.Run = NewLedger().Run()
			q.Arguments = json.RawMessage(object(valid, a.Name, v))
			d, es := DispatchAndCollect(tb, q)
			if fault := oddOutcome(d, es); fault != "" {
				tb.Fatalf("%s: with %s = %.60s: %s", p.Tool.Definition().Name, a.Name, v, fault)
			}
		}
	}
}

// oddOutcome says what is wrong with how a call stands; empty if nothing is.
func oddOutcome(d tools.Disposition, es []events.Payload) string {
	r := d.Result
	switch {
	case d.State == tools.StateHandedOff:
		return ""
	case d.State != tools.StateDone:
		return fmt.Sprintf("state %d, cause %q: bad arguments must not leave a call without an outcome", d.State, d.Cause)
	case r.Status != tools.Completed && r.Status != tools.Failed:
		return fmt.Sprintf("status %q", r.Status)
	case r.Status == tools.Failed && r.Error == "":
		return "it failed without saying why"
	case len(r.Error) > 8<<10:
		return fmt.Sprintf("an error of %d bytes", len(r.Error))
	case !utf8.ValidString(r.Output + r.Error):
		return "the result is no UTF-8"
	}
	if e, ok := es[len(es)-1].(events.ToolExecutionError); ok {
		switch e.Error.Kind {
		case tools.KindPanic, tools.KindTimeout, tools.KindUnencodable:
			return fmt.Sprintf("%s: %.300s", e.Error.Kind, e.Error.Message)
		}
	}
	return ""
}

var errEnded = errors.New("ended by the kit")

// endedContext calls with a context that has ended: the dispatcher does not run
// the tool, and the tool comes back at once if it is called all the same.
func endedContext(tb testing.TB, p Probe) {
	tb.Helper()
	name := p.Tool.Definition().Name
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEnded)
	p.Run = NewLedger().Run()
	var reg tools.Registry
	if err := reg.Add(p.Tool); err != nil {
		tb.Fatalf("register: %v", err)
	}
	call := tools.Call{ID: events.CallID{Turn: 1}, Name: name, Arguments: p.Arguments}
	_, err := tools.NewDispatcher(&reg, tools.Config{Secrets: p.Secrets}).Dispatch(ctx, p.env(), call)
	if !errors.Is(err, errEnded) || len(p.Run.Events()) > 0 {
		tb.Fatalf("%s: with a context that has ended: %v, recorded %v, want its cause and nothing", name, err, p.Run.Types())
	}
	back := make(chan any, 1)
	go func() {
		defer func() { back <- recover() }()
		_, _ = p.Tool.Call(ctx, &tools.Invocation{
			Arguments: p.Arguments, Call: call.ID, Attempt: 1, OpKey: "toolstest", Run: p.Run.ID, Tenant: p.Run.Tenant, SessionID: p.Run.Session,
			Spawner: p.Spawner, Past: p.Past, Recaller: p.Recaller, Skills: p.Skills, Progress: func(string, any) {},
		})
	}()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	select {
	case crash := <-back:
		if crash != nil {
			tb.Fatalf("%s: with a context that has ended it panics: %v", name, crash)
		}
	case <-patience.C:
		tb.Fatalf("%s: with a context that has ended it does not come back", name)
	}
}

// members takes valid arguments apart.
func members(tb testing.TB, args json.RawMessage) map[string]json.RawMessage {
	tb.Helper()
	m := map[string]json.RawMessage{}
	if len(args) == 0 {
		return m
	}
	if err := json.Unmarshal(args, &m); err != nil {
		tb.Fatalf("ToolCase.ValidArguments: %v", err)
	}
	return m
}

// object is valid with one member set to value, or left out if that is empty.
func object(valid map[string]json.RawMessage, name, value string) string {
	var parts []string
	for n, v := range valid {
		if n != name {
			parts = append(parts, fmt.Sprintf("%q:%s", n, v))
		}
	}
	if value != "" {
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}
