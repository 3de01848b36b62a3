package script_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/script"
)

var update = flag.Bool("update", false, "rewrite golden files")

func of(code func(s *script.Script, in claim) (any, error)) loops.Loop {
	return script.New(script.Config{Name: "refunds", Version: 1, Validators: []string{"v"}}, code)
}

// before is the code that made the history.
func before(s *script.Script, in claim) (any, error) {
	s.Tool("look", map[string]any{"charge": in.Charge})
	if _, err := s.Model(script.Ask{Text: "Is it justified?"}); err != nil {
		return nil, err
	}
	s.Sleep(1500e6)
	s.Tool("refund", map[string]any{"charge": in.Charge, "cents": in.Cents})
	return "done", nil
}

// What was recorded and what the code now asks for, in words: the file is what an
// operator reads.
func TestDivergencesInWords(t *testing.T) {
	ps := loopstest.Play(t, of(before), loopstest.World{Input: claim{"ch_1", 100}})
	h := loopstest.MustFold(t, ps[:len(ps)-1]...)
	look := func(s *script.Script, in claim) { s.Tool("look", map[string]any{"charge": in.Charge}) }
	ask := func(s *script.Script) { _, _ = s.Model(script.Ask{Text: "Is it justified?"}) }
	var out strings.Builder
	for _, tt := range []struct {
		name string
		code func(s *script.Script, in claim) (any, error)
	}{
		{"another tool", func(s *script.Script, _ claim) (any, error) { s.Tool("peek", nil); return nil, nil }},
		{"other arguments", func(s *script.Script, in claim) (any, error) {
			s.Tool("look", map[string]any{"charge": in.Charge, "deep": true})
			return nil, nil
		}},
		{"several calls", func(s *script.Script, in claim) (any, error) {
			s.Tools(script.Call{Tool: "look", Arguments: map[string]any{"charge": in.Charge}}, script.Child("writer", "x"), script.Signal("go", 0))
			return nil, nil
		}},
		{"a step was taken out", func(s *script.Script, _ claim) (any, error) { ask(s); return nil, nil }},
		{"another question", func(s *script.Script, in claim) (any, error) {
			look(s, in)
			return s.Model(script.Ask{Text: "Is it justified, and why?", Tools: true, Continue: true})
		}},
		{"a long question", func(s *script.Script, in claim) (any, error) {
			look(s, in)
			return s.Model(script.Ask{Text: strings.Repeat("why? ", 100)})
		}},
		{"a longer question", func(s *script.Script, in claim) (any, error) {
			look(s, in)
			return s.Model(script.Ask{Text: "Is it justified?" + strings.Repeat("\nwhy? ", 100)})
		}},
		{"another time", func(s *script.Script, in claim) (any, error) { look(s, in); ask(s); s.Sleep(2e9); return nil, nil }},
		{"an artifact", func(s *script.Script, in claim) (any, error) {
			look(s, in)
			return s.Artifact(script.Artifact{Name: "report", Value: "text", Validators: []string{"v"}})
		}},
		{"an early end", func(s *script.Script, in claim) (any, error) { look(s, in); return "enough", nil }},
		{"an error", func(s *script.Script, in claim) (any, error) { look(s, in); return nil, errors.New("not today") }},
		{"a panic", func(s *script.Script, in claim) (any, error) { look(s, in); panic("not today") }},
	} {
		step, err := of(tt.code).Next(h)
		var d *loops.DivergedError
		if !errors.As(err, &d) || step != nil {
			t.Errorf("%s: %+v, %v", tt.name, step, err)
			continue
		}
		fmt.Fprintf(&out, "%s\n\t%v\n", tt.name, err)
		// Rehearsing says the same, once.
		found, rerr := loops.Rehearse(loops.NewHistory(loopstest.Run), loopstest.Events(ps...), of(tt.code))
		if rerr != nil || len(found) != 1 || found[0].Seq != d.Seq || found[0].Kind != loops.DivergentScript || found[0].Expected != d.Recorded || found[0].Got != d.Asked {
			t.Errorf("%s: rehearsed %v, %v", tt.name, found, rerr)
		}
	}
	const golden = "testdata/divergences.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("what operators read has changed (-update rewrites it):\n%s", d)
	}
	// Nothing is lost: the code that fits goes on.
	if step, err := of(before).Next(h); err != nil || fmt.Sprintf("%T", step) != "loops.Stop" {
		t.Errorf("with the code of before: %+v, %v", step, err)
	}
}

// Code with a patch goes the old way in runs that have passed it, the new way in
// others, and each run the same way wherever it is cut.
func TestPatch(t *testing.T) {
	patched := func(s *script.Script, in claim) (any, error) {
		s.Tool("look", map[string]any{"charge": in.Charge})
		if s.Patched("ask why") {
			_, _ = s.Model(script.Ask{Text: "Why?"})
		} else {
			_, _ = s.Model(script.Ask{Text: "Is it justified?"})
		}
		s.Sleep(1500e6)
		if s.Patched("ask why") {
			s.Tool("note", nil)
		}
		s.Tool("refund", map[string]any{"charge": in.Charge, "cents": in.Cents})
		return "done", nil
	}
	w := loopstest.World{Input: claim{"ch_1", 100}}
	old := loopstest.Play(t, of(before), w)
	for n := 2; n < len(old); n++ { // parked anywhere while the code was changed
		h := loopstest.MustFold(t, old[:n]...)
		step, err := of(patched).Next(h)
		if err != nil {
			t.Fatalf("an old run cut after %d events: %v", n, err)
		}
		if p, ok := step.(loops.Plan); ok && p.Step.Op == events.OpPatch && len(h.Planned()) > 1 {
			t.Errorf("an old run cut after %d events is patched after it passed: %+v", n, p)
		}
	}
	loopstest.Cuts(t, of(patched), loopstest.Play(t, of(patched), w))
	// The old way is taken out, and later the question.
	gone := func(s *script.Script, in claim) (any, error) {
		s.Tool("look", map[string]any{"charge": in.Charge})
		_, _ = s.Model(script.Ask{Text: "Why?"})
		s.Sleep(1500e6)
		s.Tool("note", nil)
		s.Tool("refund", map[string]any{"charge": in.Charge, "cents": in.Cents})
		return "done", nil
	}
	ps := loopstest.Play(t, of(patched), w)
	if step, err := of(gone).Next(loopstest.MustFold(t, ps[:len(ps)-1]...)); err != nil {
		t.Errorf("without the patch: %+v, %v", step, err)
	}
	if _, err := of(gone).Next(loopstest.MustFold(t, old[:len(old)-1]...)); err == nil {
		t.Error("an old run goes on although its way is gone")
	}
	// Two patches at one place: the later one came later.
	two := func(s *script.Script, in claim) (any, error) {
		s.Tool("look", map[string]any{"charge": in.Charge})
		second := s.Patched("second")
		_ = s.Patched("ask why")
		_, _ = s.Model(script.Ask{Text: "Why?"})
		return second, nil
	}
	if step, err := of(two).Next(loopstest.MustFold(t, ps[:10]...)); err != nil {
		t.Errorf("two patches: %+v, %v", step, err)
	}
}

// What the redactor took out of the record does not make the code another one.
func TestRedactedStepsAreTheSame(t *testing.T) {
	const mark = "[REDACTED:aws_key:0123abcd]"
	code := func(text string, args map[string]any) loops.Loop {
		return of(func(s *script.Script, _ claim) (any, error) {
			_, _ = s.Model(script.Ask{Text: text})
			s.Tool("look", args)
			return nil, nil
		})
	}
	history := func(text, args string) *loops.History {
		return loopstest.MustFold(t, events.RunQueued{Input: json.RawMessage(`{}`)}, events.RunStarted{},
			events.TurnStarted{Turn: 1}, events.StepPlanned{Step: 1, Op: events.OpModel, Turn: 1, Text: text},
			events.ModelCallStarted{Turn: 1, Attempt: 1}, events.ModelCallFinished{Turn: 1, Attempt: 1, Text: "ok"},
			events.TurnStarted{Turn: 2}, events.StepPlanned{Step: 2, Op: events.OpCalls, Turn: 2, Calls: []events.ToolCall{{Name: "look", Arguments: json.RawMessage(args)}}})
	}
	secret := map[string]any{"a": []any{"x AKIA1 y", 1}, "password": 17, "n": 9007199254740993}
	good := `{"a":["x ` + mark + ` y",1],"n":9007199254740993,"password":"` + mark + `"}`
	for _, tt := range []struct {
		name, text, args string
		same             bool
	}{
		{"nothing redacted", "key AKIA1 and more", `{"a":["x AKIA1 y",1],"n":9007199254740993,"password":17}`, true},
		{"all", "key " + mark + " and more", good, true},
		{"another text around it", "KEY " + mark + " and more", good, false},
		{"another end", "key " + mark + " and less", good, false},
		{"another number", "key " + mark + " and more", strings.Replace(good, "993", "992", 1), false},
		{"another name", "key " + mark + " and more", strings.Replace(good, `"n"`, `"m"`, 1), false},
		{"one more", "key " + mark + " and more", strings.Replace(good, `,1]`, `,1,2]`, 1), false},
		{"another text in it", "key " + mark + " and more", strings.Replace(good, ` y"`, ` z"`, 1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := code("key AKIA1 and more", secret).Next(history(tt.text, tt.args))
			if (err == nil) != tt.same {
				t.Errorf("%v, want the same: %v", err, tt.same)
			}
		})
	}
}
