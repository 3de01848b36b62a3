package loops_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
)

// changed is singleshot, but for what f makes of its step.
type changed struct {
	loops.Loop
	f func(*loops.History, loops.Step) (loops.Step, error)
}

func (c changed) Next(h *loops.History) (loops.Step, error) {
	s, err := c.Loop.Next(h)
	if err != nil {
		return s, err
	}
	return c.f(h, s)
}

func recorded() []events.Payload {
	finish := events.ToolExecutionFinished{Call: id(2, 0), Attempt: 1, Tool: "finish", Result: events.ToolResult{Status: "completed", Output: "done", Trust: "own", Control: "finish"}}
	ps := join(start(`"go"`), ask(1, 1, "look", "refund"), one(
		began(id(1, 0), nil), ended(id(1, 0), "A", nil), began(id(1, 1), ref), doubt(id(1, 1), false),
		events.RunParked{Reason: events.ParkInDoubt}, events.RunResumed{Epoch: 2}, resolved(id(1, 1), events.EffectApplied, "B"),
	), ask(2, 1, "finish"), one(began(id(2, 0), nil), finish, events.RunFinished{StoppedBy: events.StoppedByFinish, Output: json.RawMessage(`"done"`), Turns: 2}))
	for i := range ps {
		if m, ok := ps[i].(events.ModelCallStarted); ok {
			m.Messages = 2*m.Turn - 1
			ps[i] = m
		}
	}
	return ps
}

// temporalio/sdk-go#1693: a divergence says in words what was expected and what came.
// RELIABILITY row 20.
func TestRehearsalSaysWhereALoopDecidesOtherwise(t *testing.T) {
	stop := loops.Stop{By: events.StoppedByFinish}
	for name, c := range map[string]struct {
		f    func(*loops.History, loops.Step) (loops.Step, error)
		want string
	}{
		"the same loop": {func(_ *loops.History, s loops.Step) (loops.Step, error) { return s, nil }, ""},
		"ends instead of a call": {func(_ *loops.History, s loops.Step) (loops.Step, error) {
			if _, ok := s.(loops.CallTools); ok {
				return stop, nil
			}
			return s, nil
		}, `at seq 6 the record has: tool call t1.c0 look (arguments 44136fa355b3); today's loop would: stop finish
at seq 8 the record has: tool call t1.c1 refund (arguments 44136fa355b3); today's loop would: stop finish
at seq 16 the record has: tool call t2.c0 finish (arguments 44136fa355b3); today's loop would: stop finish`},
		"ends after a turn": {func(h *loops.History, s loops.Step) (loops.Step, error) {
			if c, ok := s.(loops.CallModel); ok && c.Turn > 1 {
				return loops.Stop{By: events.StoppedByMaxTurns, Err: &events.ErrorInfo{Kind: "max_turns"}}, nil
			}
			return s, nil
		}, "at seq 13 the record has: model call of turn 2; today's loop would: fail: max_turns (max_turns)"},
		"goes on at the end": {func(h *loops.History, s loops.Step) (loops.Step, error) {
			if _, ok := s.(loops.Stop); ok {
				return loops.CallModel{Turn: h.NextTurn()}, nil
			}
			return s, nil
		}, "at seq 18 the record has: stop finish (output 58bf5b5478e5); today's loop would: model call of turn 3"},
		"another output": {func(_ *loops.History, s loops.Step) (loops.Step, error) {
			if x, ok := s.(loops.Stop); ok {
				x.Output = json.RawMessage(`"other"`)
				return x, nil
			}
			return s, nil
		}, "at seq 18 the record has: stop finish (output 58bf5b5478e5); today's loop would: stop finish (output d448c0e0f65d)"},
		"a longer conversation": {func(_ *loops.History, s loops.Step) (loops.Step, error) {
			if x, ok := s.(loops.CallModel); ok && x.Turn == 2 {
				x.Messages = append(x.Messages[:len(x.Messages):len(x.Messages)], x.Messages[0])
				return x, nil
			}
			return s, nil
		}, "at seq 14 the record has: model call of turn 2 with 3 messages; today's loop would: send 4 messages, the last one of user"},
		"fails": {func(h *loops.History, s loops.Step) (loops.Step, error) {
			if h.Turn() == 2 && h.Answer() == nil {
				return nil, errors.New("no idea")
			}
			return s, nil
		}, "at seq 14 the record has: model call of turn 2; today's loop would: fail: no idea"},
		"panics": {func(h *loops.History, s loops.Step) (loops.Step, error) {
			if h.Control() != nil {
				panic("at the disco")
			}
			return s, nil
		}, "at seq 18 the record has: stop finish (output 58bf5b5478e5); today's loop would: fail: the loop panicked: at the disco"},
	} {
		ds, err := loops.Rehearse(loops.NewHistory(loopstest.Run), loopstest.Events(recorded()...), changed{singleshot.New(), c.f})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range ds {
			got = append(got, d.String())
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), c.want)
		}
	}
}

func TestRehearsalNeedsAWholeHistory(t *testing.T) {
	es := loopstest.Events(recorded()...)
	if _, err := loops.Rehearse(loops.NewHistory(loopstest.Run), append(es[:3:3], es[4:]...), singleshot.New()); !errors.Is(err, events.ErrGap) {
		t.Errorf("%v", err)
	}
}
