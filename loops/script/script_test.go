package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/script"
	"github.com/daybookhq/daybook/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type claim struct {
	Charge string `json:"charge"`
	Cents  int    `json:"cents"`
}

// everything is a script that uses all there is.
func everything(s *script.Script, in claim) (any, error) {
	began := s.Now()
	seen := s.Tools(script.Call{Tool: "look", Arguments: map[string]any{"charge": in.Charge}}, script.Call{Tool: "count"})
	if !seen[0].OK() {
		return nil, seen[0].Err()
	}
	answer, err := s.Model(script.Ask{Text: "Is it justified? " + seen[0].Text})
	if err != nil {
		return nil, err
	}
	if answer.Text == "no" {
		return nil, script.Decline("not justified")
	}
	s.Sleep(time.Hour)
	if s.Now().Before(began) {
		return nil, errors.New("time goes back")
	}
	go1 := s.Await("go", time.Minute)
	both := s.Tools(script.Child("writer", in), script.Signal("more", 0))
	out, err := s.Model(script.Ask{Text: "Go on.", Continue: true, Tools: true})
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		v, err := s.Artifact(script.Artifact{Name: "report", Value: map[string]any{"draft": i}, Validators: []string{"v"}})
		if err != nil {
			return nil, err
		}
		if v.OK {
			break
		}
	}
	var refunded script.Outcome
	if s.Patched("once") {
		refunded = s.Tool("refund", map[string]any{"id": s.NewID(), "n": s.Rand().IntN(1000), "cents": in.Cents})
	}
	s.SleepUntil(began.Add(time.Hour))
	return map[string]any{"signal": go1.Text, "both": len(both), "answer": out.Text, "refund": refunded.Status, "at": s.Now(), "charge": in.Charge}, nil
}

func everythingLoop() loops.Loop {
	return script.New(script.Config{Name: "everything", Version: 1, Validators: []string{"v"}}, everything)
}

func everythingWorld() loopstest.World {
	asked := 0
	return loopstest.World{
		Input: claim{"ch_1", 100},
		Model: func(ms []model.Message) events.ModelCallFinished {
			if asked++; asked == 2 {
				return events.ModelCallFinished{StopReason: "tool_use", ToolCalls: []events.ToolCall{{Name: "look", Arguments: json.RawMessage(`{}`)}, {Name: "look", Arguments: json.RawMessage(`{"a":1}`)}}}
			}
			return events.ModelCallFinished{StopReason: "end_turn", Text: fmt.Sprintf("answer to %d messages", len(ms))}
		},
		Judge: func(c loops.CheckArtifact) []events.ArtifactIssue {
			if c.Revision < 1 {
				return []events.ArtifactIssue{{Message: "again"}}
			}
			return nil
		},
	}
}

// A worker that takes over at any event decides what the last one would have.
func TestEveryCutResumes(t *testing.T) {
	l := everythingLoop()
	ps := loopstest.Play(t, l, everythingWorld())
	f, ok := ps[len(ps)-1].(events.RunFinished)
	if !ok || f.StoppedBy != events.StoppedByFinish {
		t.Fatalf("it ended with %+v", ps[len(ps)-1])
	}
	want := `{"answer":"answer to 6 messages","at":"2026-01-02T03:05:04Z","both":2,"charge":"ch_1","refund":"completed","signal":"{\"name\":\"go\",\"within_ms\":60000}"}`
	if string(f.Output) != want {
		t.Errorf("output %s\nwant   %s", f.Output, want)
	}
	loopstest.Cuts(t, l, ps)
	var ops []string
	for _, p := range ps {
		if s, ok := p.(events.StepPlanned); ok {
			ops = append(ops, fmt.Sprintf("%d %s %d", s.Step, s.Op, s.Turn))
		}
	}
	if got := strings.Join(ops, ", "); got != "1 calls 1, 2 model 2, 3 calls 3, 4 calls 4, 5 calls 5, 6 model 6, 7 artifact 8, 8 artifact 9, 9 patch 0, 10 calls 10, 11 calls 11" {
		t.Errorf("steps %s", got)
	}
}

func play(t *testing.T, w loopstest.World, code func(s *script.Script, in claim) (any, error)) events.Payload {
	t.Helper()
	l := script.New(script.Config{Name: "test", Version: 1, Validators: []string{"v"}}, code)
	ps := loopstest.Play(t, l, w)
	loopstest.Cuts(t, l, ps)
	return ps[len(ps)-1]
}

func failed(t *testing.T, p events.Payload, kind, text string) {
	t.Helper()
	f, ok := p.(events.RunFailed)
	if !ok || f.Error.Kind != kind || !strings.Contains(f.Error.Message, text) {
		t.Errorf("it ended with %+v, want kind %s and %q", p, kind, text)
	}
}

func TestHowCodeEnds(t *testing.T) {
	for _, tt := range []struct {
		name       string
		code       func(s *script.Script, in claim) (any, error)
		kind, text string
	}{
		{"an error", func(*script.Script, claim) (any, error) { return nil, errors.New("boo") }, script.KindScript, "boo"},
		{"an error of its own kind", func(*script.Script, claim) (any, error) { return nil, script.Fail("late", "too late") }, "late", "too late"},
		{"wrapped", func(*script.Script, claim) (any, error) {
			return nil, fmt.Errorf("here: %w", script.Fail("late", "too late"))
		}, "late", "here: late: too late"},
		{"a panic", func(*script.Script, claim) (any, error) { var none []int; return none[len(none):][0], nil }, script.KindPanic, "index out of range [0] with length 0 (script_test.go:"},
		{"an output that cannot be encoded", func(*script.Script, claim) (any, error) { return make(chan int), nil }, script.KindScript, "cannot be encoded"},
		{"arguments that cannot be encoded", func(s *script.Script, _ claim) (any, error) { s.Tool("x", make(chan int)); return nil, nil }, script.KindScript, "arguments of x"},
		{"no question", func(s *script.Script, _ claim) (any, error) { return s.Model(script.Ask{}) }, script.KindScript, "the question is empty"},
		{"a tool without a name", func(s *script.Script, _ claim) (any, error) { s.Tool("", nil); return nil, nil }, script.KindScript, "names no tool"},
		{"a wait as a tool", func(s *script.Script, _ claim) (any, error) {
			s.Tool("script__child", map[string]any{"agent": "a"})
			return nil, nil
		}, script.KindScript, "use Sleep, Await or Child"},
		{"a validator that was not declared", func(s *script.Script, _ claim) (any, error) {
			return s.Artifact(script.Artifact{Name: "a", Value: "x", Validators: []string{"w"}})
		}, script.KindScript, `"w" is not among`},
		{"a sleep that cannot be", func(s *script.Script, _ claim) (any, error) { s.Sleep(1); return "awake", nil }, script.KindScript, "Sleep: script__sleep (t1.c0) failed: no clock"},
		{"a patch without a name", func(s *script.Script, _ claim) (any, error) { return s.Patched(""), nil }, script.KindScript, "no name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := loopstest.World{Input: claim{}, Tool: func(loops.PendingCall) events.Payload {
				return events.ToolExecutionError{Error: events.ErrorInfo{Kind: "error", Message: "no clock"}}
			}}
			failed(t, play(t, w, tt.code), tt.kind, tt.text)
		})
	}
	t.Run("declines", func(t *testing.T) {
		p := play(t, loopstest.World{Input: claim{}}, func(*script.Script, claim) (any, error) { return nil, fmt.Errorf("no: %w", script.Decline("unsafe")) })
		if f, ok := p.(events.RunFinished); !ok || f.StoppedBy != events.StoppedByDeclined || f.DeclinedBecause != "unsafe" {
			t.Errorf("it ended with %+v", p)
		}
	})
	t.Run("input that does not fit", func(t *testing.T) {
		failed(t, play(t, loopstest.World{Input: []int{1}}, everything), script.KindInput, "script_test.claim")
	})
}

func TestOutcomes(t *testing.T) {
	own := events.ToolResult{Status: "completed", Output: `{"n":1}`, Trust: "own"}
	bad := events.ToolResult{Status: "failed", Error: "broken", Trust: "own"}
	ref := events.EffectRef{Attempt: 1}
	for _, tt := range []struct {
		name string
		end  events.Payload
		want string
	}{
		{"completed", events.ToolExecutionFinished{Result: own}, `completed "{\"n\":1}" <nil>`},
		{"repeated", events.ToolExecutionFinished{Result: own, Repeated: true}, `completed "{\"n\":1}" <nil> repeated`},
		{"simulated", events.ToolExecutionFinished{Result: own, Simulated: true}, `completed "{\"n\":1}" <nil> simulated`},
		{"a result that says it failed", events.ToolExecutionFinished{Result: bad}, `failed "broken" x (t1.c0) failed: broken`},
		{"failed", events.ToolExecutionError{Error: events.ErrorInfo{Kind: "timeout", Message: "too slow"}}, `failed "too slow" x (t1.c0) failed: too slow`},
		{"blocked", events.ToolExecutionBlocked{Reason: events.BlockedPermissionDenied, Detail: "approval_denied", Result: bad}, `blocked "broken" x (t1.c0) blocked: permission_denied: approval_denied: broken`},
		{"given up", events.ToolExecutionBlocked{Reason: events.BlockedPermissionDenied, Detail: "abandoned", Result: bad}, `unknown "broken" x (t1.c0) unknown: permission_denied: abandoned: broken`},
		{"resolved as applied", events.EffectResolved{Ref: ref, State: events.EffectApplied, Result: own, By: "ann"}, `completed "{\"n\":1}" <nil> by ann`},
		{"resolved as not applied", events.EffectResolved{Ref: ref, State: events.EffectNotApplied, Result: bad, By: "ann"}, `failed "broken" x (t1.c0) failed: broken by ann`},
		{"abandoned", events.EffectResolved{Ref: ref, State: events.EffectAbandoned, By: "ann"}, `unknown "" x (t1.c0) unknown by ann`},
		{"in doubt, and may go on", events.ToolExecutionInDoubt{Ref: ref, Continue: true}, `unknown "nobody can know whether it took effect" x (t1.c0) unknown: nobody can know whether it took effect`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			p := play(t, loopstest.World{Input: claim{}, Tool: func(loops.PendingCall) events.Payload { return tt.end }}, func(s *script.Script, _ claim) (any, error) {
				o := s.Tool("x", nil)
				got = fmt.Sprintf("%s %q %v", o.Status, o.Text, o.Err())
				if o.Repeated {
					got += " repeated"
				}
				if o.Simulated {
					got += " simulated"
				}
				if o.By != "" {
					got += " by " + o.By
				}
				var v struct{ N int }
				if err := o.Decode(&v); (err == nil) != o.OK() || o.OK() && v.N != 1 {
					return nil, fmt.Errorf("decoded %+v, %w", v, err)
				}
				return nil, o.Err()
			})
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !strings.HasPrefix(tt.want, "completed") {
				failed(t, p, "tool_"+strings.Fields(tt.want)[0], "x (t1.c0)")
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	ask := func(a script.Ask) func(s *script.Script, _ claim) (any, error) {
		return func(s *script.Script, _ claim) (any, error) {
			got, err := s.Model(a)
			return got.Text + got.Control, err
		}
	}
	control := events.ToolResult{Status: "completed", Output: "all", Control: "finish", Trust: "own"}
	for _, tt := range []struct {
		name   string
		ask    script.Ask
		answer events.ModelCallFinished
		want   string
	}{
		{"text", script.Ask{Text: "?"}, events.ModelCallFinished{Text: "yes", StopReason: "end_turn"}, `finish "yes"`},
		{"calls that nobody offered", script.Ask{Text: "?"}, events.ModelCallFinished{Text: "yes", ToolCalls: []events.ToolCall{{Name: "x", Arguments: json.RawMessage(`{}`)}}}, `finish "yes"`},
		{"a tool that ends it", script.Ask{Text: "?", Tools: true}, events.ModelCallFinished{ToolCalls: []events.ToolCall{{Name: "finish", Arguments: json.RawMessage(`{}`)}}}, `finish "allfinish"`},
		{"a refusal", script.Ask{Text: "?"}, events.ModelCallFinished{Text: "I won't", StopReason: "refusal"}, "declined I won't"},
		{"half an answer", script.Ask{Text: "?"}, events.ModelCallFinished{Text: "ye", StopReason: "max_tokens"}, "error answer_cut"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := play(t, loopstest.World{
				Input: claim{}, Model: func([]model.Message) events.ModelCallFinished { return tt.answer },
				Tool: func(loops.PendingCall) events.Payload { return events.ToolExecutionFinished{Result: control} },
			}, ask(tt.ask))
			got := ""
			switch p := p.(type) {
			case events.RunFinished:
				got = fmt.Sprintf("%s %s%s", p.StoppedBy, p.Output, p.DeclinedBecause)
			case events.RunFailed:
				got = fmt.Sprintf("%s %s", p.StoppedBy, p.Error.Kind)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A model that fails for good is an error that code can act on; one more turn than
// the limit ends the run.
func TestModelThatFails(t *testing.T) {
	l := script.New(script.Config{Name: "test", Version: 1}, func(s *script.Script, _ claim) (any, error) {
		_, err := s.Model(script.Ask{Text: "first"})
		if err == nil {
			return nil, errors.New("no error")
		}
		a, err := s.Model(script.Ask{Text: "second"})
		return a.Text, err
	})
	ps := []events.Payload{
		events.RunQueued{Input: json.RawMessage(`{}`)},
		events.RunStarted{Limits: events.Limits{MaxModelAttempts: 2, MaxTurns: 2}},
		events.TurnStarted{Turn: 1},
		events.StepPlanned{Step: 1, Op: events.OpModel, Turn: 1, Text: "first"},
		events.ModelCallStarted{Turn: 1, Attempt: 1, Messages: 1},
		events.ModelCallError{Turn: 1, Attempt: 1, Retryable: true, Error: events.ErrorInfo{Kind: "overloaded"}},
		events.ModelCallStarted{Turn: 1, Attempt: 2, Messages: 1},
		events.ModelCallError{Turn: 1, Attempt: 2, Retryable: true, Error: events.ErrorInfo{Kind: "overloaded"}},
		events.TurnStarted{Turn: 2},
		events.StepPlanned{Step: 2, Op: events.OpModel, Turn: 2, Text: "second"},
		events.ModelCallStarted{Turn: 2, Attempt: 1, Messages: 1},
		events.ModelCallFinished{Turn: 2, Attempt: 1, Text: "yes"},
		events.RunFinished{StoppedBy: events.StoppedByFinish, Output: json.RawMessage(`"yes"`)},
	}
	loopstest.Cuts(t, l, ps)
	p := loopstest.Play(t, script.New(script.Config{Name: "test", Version: 1}, func(s *script.Script, _ claim) (any, error) {
		for {
			if _, err := s.Model(script.Ask{Text: "and?"}); err != nil {
				return nil, err
			}
		}
	}), loopstest.World{Input: claim{}, Started: events.RunStarted{Limits: events.Limits{MaxTurns: 3}}})
	if f, ok := p[len(p)-1].(events.RunFailed); !ok || f.StoppedBy != events.StoppedByMaxTurns {
		t.Errorf("it ended with %+v", p[len(p)-1])
	}
}
