package events_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
)

// Whatever a result holds, it fits into an event with room for the rest; and one
// that fits is not touched.
func TestResultsFit(t *testing.T) {
	for name, text := range map[string]string{
		"controls": "\x00", "markup": "<&>", "quotes": `"\`, "separators": "\u2028", "words": "ä word ", "faces": "\U0001F600", "invalid": "\xff\xc3", "replaced": "\ufffd",
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat(text, 1<<20/len(text))
			source := events.Source{Title: long[:len(long)/1024], URL: "https://example.com/"}
			for what, r := range map[string]events.ToolResult{
				"output": {Output: long}, "error": {Error: long}, "sources": {Sources: []events.Source{source, source, source, source, source, source, source, source}},
				"one source": {Sources: []events.Source{{URL: long}}},
				"all":        {Status: "completed", Output: long, Error: long, Sources: []events.Source{source, source}, Truncated: &events.Truncated{Kept: 1, Of: 5 << 20}},
			} {
				got := r.Fit()
				b, err := json.Marshal(events.ToolExecutionError{Result: got, Error: events.ErrorInfo{Message: long}.Fit()})
				if err != nil || len(b) > events.MaxDataBytes-2<<10 {
					t.Errorf("%s: %d bytes in an event, %v", what, len(b), err)
				}
				if text != "\xff\xc3" && !utf8.ValidString(got.Output+got.Error) || !strings.HasPrefix(r.Output, got.Output) || !strings.HasPrefix(r.Error, got.Error) {
					t.Errorf("%s: it was not cut at the end of a character", what)
				}
				if (got.Truncated != nil) != (r.Output != "") {
					t.Errorf("%s: %+v", what, got.Truncated)
				}
				if r.Output != "" && (got.Truncated.Kept != len(got.Output) || got.Truncated.Of != max(len(long), want(r.Truncated)) || len(got.Output) < 30_000) {
					t.Errorf("%s: %+v of %d bytes", what, got.Truncated, len(got.Output))
				}
				if again := got.Fit(); !reflect.DeepEqual(again, got) {
					t.Errorf("%s: cut twice", what)
				}
			}
		})
	}
	fits := events.ToolResult{
		Status: "completed", Output: strings.Repeat("x", events.MaxOutput), Sources: []events.Source{{Title: "a", URL: "b"}},
		Truncated: &events.Truncated{Kept: events.MaxOutput, Of: 1 << 30},
	}
	if got := fits.Fit(); !reflect.DeepEqual(got, fits) {
		t.Error("a result that fits was changed")
	}
}

func want(t *events.Truncated) int {
	if t == nil {
		return 0
	}
	return t.Of
}
