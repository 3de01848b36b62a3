package loops_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/singleshot"
)

func TestSelection(t *testing.T) {
	for in, want := range map[string]string{
		`"singleshot"`:                             `"singleshot"`,
		`{"strategy":"singleshot"}`:                `"singleshot"`,
		` {"max_revisions":2,"strategy":"revise"}`: `{"max_revisions":2,"strategy":"revise"}`,
	} {
		var s loops.Selection
		if err := json.Unmarshal([]byte(in), &s); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if b, err := json.Marshal(s); err != nil || string(b) != want || s.IsZero() {
			t.Errorf("%s comes back as %s, %v; want %s", in, b, err, want)
		}
	}
	for in, want := range map[string]string{
		`""`: "is empty", `{}`: `"strategy" is`, `null`: "want a name", `[1]`: "want a name", `{"strategy":7}`: `"strategy" is 7`,
	} {
		var s loops.Selection
		if err := json.Unmarshal([]byte(in), &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	if _, err := json.Marshal(loops.Selection{Strategy: "a", Options: json.RawMessage(`{"strategy":"b"}`)}); err == nil {
		t.Error("an option hides the strategy")
	}
	if _, err := loops.CheckOptions(singleshot.New(), json.RawMessage(`{"a":1}`)); err == nil || !strings.Contains(err.Error(), "has no options") {
		t.Errorf("options of a loop that takes none: %v", err)
	}
}
