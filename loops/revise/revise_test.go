package revise_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/revise"
)

// describe says a step in one line.
func describe(s loops.Step) string {
	switch s := s.(type) {
	case loops.CallModel:
		m := s.Messages[len(s.Messages)-1]
		return fmt.Sprintf("call model, turn %d, %d messages, without tools %t, last is %s %q", s.Turn, len(s.Messages), s.WithoutTools, m.Role, m.Text)
	case loops.CheckArtifact:
		return fmt.Sprintf("check %s %d of turn %d: %q by %s, %s", s.Artifact, s.Revision, s.Turn, s.Text, s.Parser, strings.Join(s.Validators, ", "))
	case loops.ReviseArtifact:
		return fmt.Sprintf("revise %s to %d after turn %d: %q by %s, %s; %s", s.Artifact, s.Revision, s.Turn, s.Text, s.Parser, s.Repairer, s.Verdict.Issues)
	case loops.AcceptArtifact:
		return fmt.Sprintf("accept %s %d, %d bytes", s.Artifact.Name, s.Artifact.Revision, s.Artifact.Bytes)
	case loops.RejectArtifact:
		return fmt.Sprintf("reject %s after %d: %s", s.Artifact.Name, s.Artifact.Revisions, s.Artifact.Issues)
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
		"new_run":            `call model, turn 1, 1 messages, without tools true, last is user "write the notes"`,
		"answered":           `check notes 0 of turn 1: "v1" by json, schema, words`,
		"empty_answer":       `check notes 0 of turn 1: "" by json, schema, words`,
		"started_and_died":   `check notes 0 of turn 1: "v1" by json, schema, words`,
		"refused":            `revise notes to 1 after turn 1: "v1" by json, issues; [{/title is missing}]`,
		"revision_asked_for": `call model, turn 2, 3 messages, without tools true, last is user "mend it"`,
		"revision_answered":  `check notes 1 of turn 2: "v2" by json, schema, words`,
		"used_up":            `reject notes after 1: [{/title is still missing}]`,
		"accepted":           `accept notes 1, 7 bytes`,
		"finished":           `stop by artifact_finished, output {"artifact":"notes","revision":1,"bytes":7}, because ""`,
		"failed":             `stop by artifact_failed, output , because ""`,
		"no_verdict":         `stop by error, output , because "", error validator: it panicked`,
		"refusal":            `stop by declined, output , because "I will not."`,
		"cut_answer":         `stop by error, output , because "", error answer_cut: the answer of turn 1 was cut off at the token limit; raise max_tokens`,
		"tools_asked":        `check notes 0 of turn 1: "v1" by json, schema, words`,
		"model_failed":       `stop by error, output , because "", error unauthorized: model call of turn 1, attempt 1: no key`,
		"max_turns":          `stop by max_turns, output , because "", error max_turns: not done after 1 turns`,
		"cancel":             `stop by cancelled, output , because ""`,
		"not_started":        `error: decide run RUN seq 1: the run has not been queued and started`,
		"no_options":         `error: decide run RUN: options: validators: missing; write the names of one validator or more, such as [schema]`,
	}
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			ps, err := loopstest.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			h := loopstest.MustFold(t, ps...)
			for range 2 { // asking changes nothing
				step, err := revise.New().Next(h)
				got := describe(step)
				if err != nil {
					got = "error: " + strings.ReplaceAll(err.Error(), loopstest.Run.String(), "RUN")
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("step (-want +got):\n%s", d)
				}
			}
		})
	}
	files, err := os.ReadDir("testdata")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d histories in testdata, %d in the table, %v", len(files), len(want), err)
	}
}

// A run that is cut off anywhere goes on with the same step: the loop has no
// memory but the history.
func TestCutAnywhere(t *testing.T) {
	whole, err := loopstest.ReadFile("testdata/finished.json")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		cut := rapid.IntRange(2, len(whole)).Draw(t, "cut")
		a := loops.NewHistory(loopstest.Run)
		for _, e := range loopstest.Events(whole[:cut]...) {
			if err := a.Apply(e); err != nil {
				t.Fatal(err)
			}
			_, _ = revise.New().Next(a) // asked all the way, or only at the end
		}
		b, err := loopstest.Fold(whole[:cut]...)
		if err != nil {
			t.Fatal(err)
		}
		x, errX := revise.New().Next(a)
		y, errY := revise.New().Next(b)
		if !reflect.DeepEqual(x, y) || fmt.Sprint(errX) != fmt.Sprint(errY) {
			t.Fatalf("cut at %d: %+v, %v and %+v, %v", cut, x, errX, y, errY)
		}
	})
}

// A fork may go on from an accepted artifact with a word of the user: a new count
// of revisions.
func TestForkGoesOn(t *testing.T) {
	ps, err := loopstest.ReadFile("testdata/failed.json")
	if err != nil {
		t.Fatal(err)
	}
	es := loopstest.Events(ps...)
	last := es[len(es)-1]
	started := ps[1].(events.RunStarted)
	fork := func(note string) loops.Step {
		h := loops.NewHistory(events.RunID{9})
		for _, e := range es {
			if err := h.Inherit(e); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range loopstest.EventsOf(events.RunID{9},
			events.RunQueued{Agent: "a", Input: json.RawMessage(note), Fork: &events.Fork{Run: last.RunID, Seq: last.Seq, Hash: last.Hash, Effects: "ask"}}, started) {
			if err := h.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if h.Revision() != 0 && note != "null" {
			t.Errorf("revision %d", h.Revision())
		}
		step, err := revise.New().Next(h)
		if err != nil {
			t.Fatal(err)
		}
		return step
	}
	if got := describe(fork("null")); got != `stop by artifact_failed, output , because ""` {
		t.Errorf("without a note: %s", got)
	}
	if got := describe(fork(`"shorter"`)); got != `call model, turn 3, 5 messages, without tools true, last is user "shorter"` {
		t.Errorf("with a note: %s", got)
	}
}

func TestOptions(t *testing.T) {
	o, err := revise.ParseOptions(json.RawMessage(`{"validators":["v"]}`))
	if err != nil || o.Artifact != "artifact" || o.Parser != "text" || o.Repairer != "issues" || *o.MaxRevisions != 3 {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	for raw, want := range map[string]string{
		``:                  `validators: missing; write the names of one validator or more, such as [schema]`,
		`[1]`:               `want a JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage`,
		`{"validators":[]}`: `validators: empty; write the names of one validator or more, such as [schema]`,
		`{"validators":["v"],"max_revisions":-1}`:   `max_revisions: want a whole number from 0 to 100, got -1`,
		`{"validators":["v"],"max_revisions":null}`: `max_revisions: want a whole number from 0 to 100, got null`,
		`{"validators":["v"],"max_revisions":1.5}`:  `max_revisions: want a whole number from 0 to 100, got 1.5`,
		`{"validators":"v"}`:                        `validators: want a list of names of validators, such as [schema], got "v"`,
		`{"validators":["v","v"]}`:                  `validators: "v" is written twice; keep one`,
		`{"validators":["v"],"artifact":"a b"}`:     `artifact: want 1 to 64 letters, digits, "_", "-" and ".", got "a b"`,
		`{"validators":["v"],"parser":""}`:          `parser: want a text, got ""`,
		`{"validators":["v"],"max_revisons":1}`:     `max_revisons: the loop revise has no such option; known options: artifact, parser, validators, repairer, max_revisions`,
		`{"parser":7,"zz":1,"aa":2}`: `parser: want a text, got 7
validators: missing; write the names of one validator or more, such as [schema]
aa: the loop revise has no such option; known options: artifact, parser, validators, repairer, max_revisions
zz: the loop revise has no such option; known options: artifact, parser, validators, repairer, max_revisions`,
	} {
		_, err := revise.New().Options(json.RawMessage(raw))
		if err == nil {
			t.Errorf("%s: no error", raw)
			continue
		}
		if err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
		var o *loops.OptionError
		if !errors.As(err, &o) {
			t.Errorf("%s: %T", raw, err)
		}
	}
}
