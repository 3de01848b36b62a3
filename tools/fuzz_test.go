package tools_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/tools"
)

// FuzzArguments: whatever stands in the arguments, the call ends in one
// outcome whose event can be stored, and what runs is what was recorded.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"n":1}`, `{"n":1.5,"s":"x"}`, `{"e":"x","o":{"a":[1,2]}}`, `[]`, `null`, `{"n":1e400}`, `{"a":1,"a":2}`, "{\"s\":\"\xff\"}",
		`{"\u006e":9007199254740993}`, `{"s":"\ud800"}`, `{"l":["a",null]}`, `{"when":"2026-01-01T00:00:00Z"}`, `{"r":true,"u":255}`, `{"s":"secret://x"}`,
	} {
		f.Add(s)
	}
	all := echoTools(f)
	f.Fuzz(func(t *testing.T, args string) {
		b := newBench(t, tools.Config{}, all...)
		for _, name := range []string{"full", "quick", "raw"} {
			n := len(b.run.Events())
			disp := b.call(name, args)
			es := b.run.Events()[n:]
			if !utf8.ValidString(disp.Result.Output + disp.Result.Error) {
				t.Errorf("%s: result is no UTF-8: %+v", name, disp.Result)
			}
			if disp.Blocked != "" {
				if e := es[0].(events.ToolExecutionBlocked); len(es) != 1 || !json.Valid(e.Arguments) || e.Result.Error == "" {
					t.Errorf("%s: %+v", name, e)
				}
				continue
			}
			s := es[0].(events.ToolExecutionStarted)
			want, err := canonical.JSON([]byte(args))
			if len(args) > 0 && (err != nil || string(want) != string(s.Arguments)) {
				t.Errorf("%s: ran with %s, asked with %s, %v", name, s.Arguments, want, err)
			}
			if len(es) != 2 || name == "raw" && disp.Result.Output != string(s.Arguments) && disp.Result.Truncated == nil {
				t.Errorf("%s: %s became %s", name, s.Arguments, disp.Result.Output)
			}
		}
	})
}
