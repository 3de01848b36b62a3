package singleshot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
)

// describe says a step in one line.
func describe(s loops.Step) string {
	switch s := s.(type) {
	case loops.CallModel:
		m := s.Messages[len(s.Messages)-1]
		last := m.Text
		for _, r := range m.Results {
			last += r.Text
		}
		return fmt.Sprintf("call model, turn %d, %d messages, last is %s %q", s.Turn, len(s.Messages), m.Role, last)
	case loops.CallTools:
		var cs []string
		for _, c := range s.Calls {
			cs = append(cs, fmt.Sprintf("%s %s attempt %d", c.ID, c.Name, c.Attempt))
		}
		return fmt.Sprintf("call tools, turn %d: %s", s.Turn, strings.Join(cs, ", "))
	case loops.Await:
		return fmt.Sprintf("await %s: %s", s.Reason, s.Detail)
	case loops.Stop:
		out := fmt.Sprintf("stop by %s, output %s, because %q", s.By, s.Output, s.DeclinedBecause)
		if s.Err != nil {
			out += fmt.Sprintf(", error %s: %s", s.Err.Kind, s.Err.Message)
		}
		return out
	}
	return fmt.Sprintf("%T", s)
}

func TestNext(t *testing.T) {
	want := map[string]string{
		"new_run":                  `call model, turn 1, 1 messages, last is user "refund order 7"`,
		"tools_asked":              `call tools, turn 1: t1.c1 lookup attempt 1`,
		"tools_done":               `call model, turn 2, 3 messages, last is tool "open"`,
		"finish":                   `stop by finish, output {"refunded":"7"}, because ""`,
		"finish_beside_other_call": `call tools, turn 1: t1.c0 refund attempt 1`,
		"decline":                  `stop by declined, output {"because":"out_of_scope"}, because "out_of_scope"`,
		"text":                     `stop by finish, output "42", because ""`,
		"silent":                   `stop by silent, output , because ""`,
		"refusal":                  `stop by declined, output , because "I will not."`,
		"cut_answer":               `stop by error, output , because "", error answer_cut: the answer of turn 1 was cut off at the token limit; raise max_tokens`,
		"max_turns":                `stop by max_turns, output , because "", error max_turns: not done after 1 turns`,
		"retry":                    `call model, turn 1, 1 messages, last is user "refund order 7"`,
		"not_retryable":            `stop by error, output , because "", error unauthorized: model call of turn 1, attempt 1: try later`,
		"attempts_used_up":         `stop by error, output , because "", error overloaded: model call of turn 1, attempt 2: try later`,
		"crashes_are_no_failures":  `call model, turn 1, 1 messages, last is user "refund order 7"`,
		"in_doubt":                 `await in_doubt: t1.c0 of refund`,
		"in_doubt_continue":        `call model, turn 2, 3 messages, last is tool "unknown whether it took effect; do not retry it and do not rely on it either way"`,
		"cancel":                   `stop by cancelled, output , because ""`,
		"not_started":              `error: decide run RUN seq 1: the run has not been queued and started`,
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".json")
		t.Run(name, func(t *testing.T) {
			ps, err := loopstest.ReadFile(filepath.Join("testdata", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			h := loopstest.MustFold(t, ps...)
			var got [2]string
			for i := range got {
				step, err := singleshot.New().Next(h)
				got[i] = describe(step)
				if err != nil {
					got[i] = "error: " + strings.ReplaceAll(err.Error(), loopstest.Run.String(), "RUN")
				}
			}
			if d := cmp.Diff(want[name], got[0]); d != "" {
				t.Errorf("step (-want +got):\n%s", d)
			}
			if got[0] != got[1] {
				t.Errorf("asked again: %s, before: %s", got[1], got[0])
			}
		})
	}
	if len(files) != len(want) {
		t.Errorf("%d histories in testdata, %d in the table", len(files), len(want))
	}
}

// A retry time is left to the runtime: it is in the history, and the step is
// the call.
func TestRetryTimeIsTheRuntimes(t *testing.T) {
	ps, err := loopstest.ReadFile("testdata/retry.json")
	if err != nil {
		t.Fatal(err)
	}
	h := loopstest.MustFold(t, ps...)
	if e := h.LastModelError(); e == nil || !e.RetryAt.After(h.Time()) {
		t.Errorf("last model error = %+v, want one with a retry time after %s", e, h.Time())
	}
	if n := h.ModelAttempts(); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func TestStopOutputIsJSON(t *testing.T) {
	for _, name := range []string{"finish", "text", "decline"} {
		ps, err := loopstest.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		step, err := singleshot.New().Next(loopstest.MustFold(t, ps...))
		if err != nil {
			t.Fatal(err)
		}
		if s := step.(loops.Stop); !json.Valid(s.Output) {
			t.Errorf("%s: output %q is no JSON", name, s.Output)
		}
	}
}
