package script_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/script"
	"github.com/daybookhq/daybook/model"
)

// interpreter is code that does what its input says, and decides by what came of it.
func interpreter(s *script.Script, program []int) (any, error) {
	var said []string
	note := func(v ...any) { said = append(said, fmt.Sprint(v...)) }
	for i, op := range program {
		switch op {
		case 0, 1:
			o := s.Tool("a", map[string]any{"i": i, "id": s.NewID()})
			note(o.Status, o.Text, o.Repeated, o.By)
			if o.Status == script.Failed && op == 1 {
				note(s.Tool("b", nil).Text)
			}
		case 2:
			for _, o := range s.Tools(script.Call{Tool: "a"}, script.Signal("go", time.Second), script.Call{Tool: "c"}) {
				note(o.Call, o.Status)
			}
		case 3, 4:
			a, err := s.Model(script.Ask{Text: fmt.Sprint("question ", i), Continue: op == 4, Tools: i%2 == 0})
			note(a.Text, a.Control, err)
		case 5:
			s.Sleep(time.Duration(i+1) * time.Second)
		case 6:
			v, err := s.Artifact(script.Artifact{Name: "x", Value: i})
			note(v.Revision, v.OK, err)
		case 7:
			note(s.Patched(fmt.Sprint("p", i%3)))
		case 8:
			note(s.Now(), s.Rand().IntN(100))
		case 9:
			note(s.Child("other", i).Status)
		}
	}
	return said, nil
}

// Whatever a script does and whatever comes of it, over takeovers between any two
// steps: it goes on from every cut, and ends as if nobody had disturbed it.
func TestAnyScriptResumes(t *testing.T) {
	l := script.New(script.Config{Name: "interpreter", Version: 1}, interpreter)
	ref := events.EffectRef{Attempt: 1}
	ends := []events.Payload{
		events.ToolExecutionFinished{Result: events.ToolResult{Status: "completed", Output: "yes", Trust: "own"}},
		events.ToolExecutionFinished{Repeated: true, Result: events.ToolResult{Status: "completed", Output: "again"}},
		events.ToolExecutionFinished{Result: events.ToolResult{Status: "completed", Output: "over", Control: "finish"}},
		events.ToolExecutionError{Error: events.ErrorInfo{Kind: "k", Message: "m"}},
		events.ToolExecutionBlocked{Reason: events.BlockedToolDenied},
		events.EffectResolved{Ref: ref, State: events.EffectApplied, By: "ann"},
		events.ToolExecutionInDoubt{Ref: ref, Continue: true},
	}
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 12).Draw(rt, "program")
		fates := rapid.SliceOfN(rapid.IntRange(0, len(ends)-1), 1, 30).Draw(rt, "fates")
		takeovers := rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(rt, "takeovers")
		play := func(resume func() bool) []events.Payload {
			n, asked := 0, 0
			return loopstest.Play(t, l, loopstest.World{
				Input: program, Resume: resume, Started: events.RunStarted{Limits: events.Limits{MaxTurns: 100}},
				Tool: func(c loops.PendingCall) events.Payload {
					if n++; c.Name == loops.SleepTool {
						return ends[0]
					}
					return ends[fates[n%len(fates)]]
				},
				Model: func(ms []model.Message) events.ModelCallFinished {
					a := events.ModelCallFinished{Text: fmt.Sprint("after ", len(ms)), StopReason: "end_turn"}
					if asked++; asked%3 == 1 {
						a.ToolCalls = []events.ToolCall{{Name: "a", Arguments: json.RawMessage(`{}`)}}
					}
					return a
				},
				Judge: func(loops.CheckArtifact) []events.ArtifactIssue {
					if n++; fates[n%len(fates)] == 0 {
						return []events.ArtifactIssue{{Message: "no"}}
					}
					return nil
				},
			})
		}
		n := 0
		disturbed := play(func() bool { n++; return takeovers[n%len(takeovers)] })
		loopstest.Cuts(t, l, disturbed)
		calm := play(nil)
		if f, ok := calm[len(calm)-1].(events.RunFinished); !ok || f.StoppedBy != events.StoppedByFinish {
			rt.Fatalf("it ended with %+v", calm[len(calm)-1])
		}
		left := 0
		for _, p := range disturbed {
			if _, ok := p.(events.RunResumed); ok {
				continue
			}
			a, errA := json.Marshal(p)
			b, errB := json.Marshal(calm[left])
			if left++; errA != nil || errB != nil || string(a) != string(b) && !timed(program) {
				rt.Fatalf("event %d is %s, undisturbed %s", left, a, b)
			}
		}
		if t.Failed() {
			rt.Fatalf("see above")
		}
	})
}

// timed reports whether what a program says depends on the time, which goes on
// with each event.
func timed(program []int) bool {
	for _, op := range program {
		if op == 8 {
			return true
		}
	}
	return false
}
