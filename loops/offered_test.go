package loops_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

// SG-154: what a model was shown is read from the history: it holds for another
// attempt of the call, and until a user message comes.
func TestOffered(t *testing.T) {
	asked := func(turn, attempt int, tools ...string) events.ModelCallStarted {
		return events.ModelCallStarted{Turn: turn, Attempt: attempt, Tools: tools}
	}
	answered := func(turn, attempt int) events.ModelCallFinished {
		return events.ModelCallFinished{Turn: turn, Attempt: attempt, Text: "hm"}
	}
	start := []events.Payload{events.RunQueued{Input: json.RawMessage(`"hello"`)}, events.RunStarted{}}
	tests := []struct {
		name    string
		more    []events.Payload
		want    []string
		current bool
	}{
		{"before the first call", nil, nil, false},
		{"an attempt that is open", []events.Payload{asked(1, 1, "a", "b")}, []string{"a", "b"}, true},
		{"an attempt that failed", []events.Payload{asked(1, 1, "a", "b"), events.ModelCallError{Turn: 1, Attempt: 1, Retryable: true}}, []string{"a", "b"}, true},
		{"a second attempt cannot change it", []events.Payload{asked(1, 1, "a"), asked(1, 2, "b")}, []string{"a"}, true},
		{"the turn after", []events.Payload{asked(1, 1, "a"), answered(1, 1)}, []string{"a"}, true},
		{"of the last turn", []events.Payload{asked(1, 1, "a"), answered(1, 1), asked(2, 1, "b"), answered(2, 1)}, []string{"b"}, true},
		{"a user says something", []events.Payload{asked(1, 1, "a"), answered(1, 1), events.ArtifactRevisionStarted{Revision: 1, Input: "shorter!"}}, []string{"a"}, false},
		{
			"and is answered",
			[]events.Payload{asked(1, 1, "a"), answered(1, 1), events.ArtifactRevisionStarted{Revision: 1, Input: "shorter!"}, asked(2, 1, "b")},
			[]string{"b"},
			true,
		},
		{"nothing was shown", []events.Payload{asked(1, 1)}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h *loops.History
			for _, e := range loopstest.Events(append(slices.Clone(start), tt.more...)...) {
				if h == nil {
					h = loops.NewHistory(e.RunID)
				}
				if err := h.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			if got, current := h.Offered(); !slices.Equal(got, tt.want) || current != tt.current {
				t.Errorf("offered %q, %v, want %q, %v", got, current, tt.want, tt.current)
			}
		})
	}
}
