package loops_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
)

// fork1 and fork2 are runs that begin with another one's history.
var (
	fork1 = events.RunID{0x01, 0x9a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}
	fork2 = events.RunID{0x01, 0x9a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}
)

// forked is the first event of a fork at the last event of es.
func forked(es []events.Event, input string) events.Payload {
	l := es[len(es)-1]
	return events.RunQueued{Agent: "a", Input: json.RawMessage(input), Fork: &events.Fork{Run: l.RunID, Seq: l.Seq, Hash: l.Hash, Effects: "replay"}}
}

func inherit(t testing.TB, run events.RunID, own []events.Event, inherited ...[]events.Event) *loops.History {
	t.Helper()
	h := loops.NewHistory(run)
	for _, es := range inherited {
		for _, e := range es {
			if err := h.Inherit(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range own {
		if err := h.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestForkGoesOnWhereTheHistoryIsCut(t *testing.T) {
	started := events.RunStarted{Loop: "singleshot", Model: "other"}
	whole := join(start(`"go"`), ask(1, 1, "a", "b"), one(
		began(id(1, 0), nil), ended(id(1, 0), "A", nil), began(id(1, 1), ref), doubt(id(1, 1), false),
		events.RunParked{Reason: events.ParkInDoubt}, events.OperatorActed{Verb: "cancel"}, resolved(id(1, 1), events.EffectApplied, "B"),
		events.RunUnparked{}, events.TurnStarted{Turn: 2}, events.ModelCallStarted{Turn: 2, Attempt: 1},
		events.ModelCallError{Turn: 2, Attempt: 1, Error: events.ErrorInfo{Kind: "x"}}, events.RunFailed{StoppedBy: events.StoppedByError},
	))
	es := loopstest.Events(whole...)
	for name, c := range map[string]struct {
		cut   int
		input string
		want  string
	}{
		"before anything is asked":            {2, "null", "call model of turn 1 with user: go"},
		"while the model is asked":            {4, "null", "call model of turn 1 with user: go"},
		"between the answer and its calls":    {5, "null", "call tools [t1.c0#1 t1.c1#1]"},
		"while a readonly call runs":          {6, "null", "call tools [t1.c0#2 t1.c1#1]"},
		"while a destructive call runs":       {8, "null", "call tools [t1.c1#2]"},
		"where the run was in doubt":          {9, "null", "call tools [t1.c1#2]"},
		"behind a cancel of the other run":    {11, "null", "call tools [t1.c1#2]"},
		"behind the resolution":               {12, "null", "call model of turn 2 with a t1.c0: A"},
		"behind an attempt that failed":       {16, "null", "call model of turn 2 with a t1.c0: A"},
		"behind the end":                      {17, "null", "call model of turn 2 with a t1.c0: A"},
		"with a note, before the calls":       {5, `"use b"`, "call model of turn 2 with user: use b"},
		"with a note, while the model's call": {4, `{"hint":1}`, `call model of turn 1 with user: {"hint":1}`},
	} {
		h := inherit(t, fork1, loopstest.EventsOf(fork1, forked(es[:c.cut], c.input), started), es[:c.cut])
		step, err := singleshot.New().Next(h)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(h, step); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if h.Seq() != 2 || h.Epoch() != 1 || h.Usage() != (events.Usage{}) || h.CancelRequested() != nil || h.Parked() != nil || h.Started().Model != "other" {
			t.Errorf("%s: seq %d epoch %d usage %+v started %+v", name, h.Seq(), h.Epoch(), h.Usage(), h.Started())
		}
		if _, over := h.Terminal(); over || h.Has(es[0].ID) {
			t.Errorf("%s: the end or the ids of the other run came along", name)
		}
		if c.cut > 1 && (h.InheritedStart() == nil || h.InheritedStart().Model != "scripted/test") {
			t.Errorf("%s: bound to %+v", name, h.InheritedStart())
		}
	}
}

// said is a step in a line.
func said(h *loops.History, s loops.Step) string {
	switch s := s.(type) {
	case loops.CallModel:
		return fmt.Sprintf("call model of turn %d with %s", s.Turn, lastTexts(h)[0])
	case loops.CallTools:
		var ids []string
		for _, c := range s.Calls {
			ids = append(ids, fmt.Sprintf("%s#%d", c.ID, c.Attempt))
		}
		return fmt.Sprintf("call tools %v", ids)
	}
	return fmt.Sprintf("%T %+v", s, s)
}

func TestNoteAnswersOpenCalls(t *testing.T) {
	es := loopstest.Events(join(start(`"go"`), ask(1, 1, "a", "b"), one(began(id(1, 1), ref)))...)
	h := inherit(t, fork1, loopstest.EventsOf(fork1, forked(es, `"stop that"`)), es)
	ms := h.Messages()
	want := []model.Result{
		{CallID: "t1.c0", Name: "a", Failed: true, Text: `not run: calls of "a" are not performed in this turn`},
		{CallID: "t1.c1", Name: "b", Failed: true, Text: "unknown whether it took effect; do not retry it and do not rely on it either way"},
	}
	if len(ms) != 4 || ms[3].Text != "stop that" {
		t.Fatalf("messages: %+v", ms)
	}
	if d := cmp.Diff(want, ms[2].Results); d != "" {
		t.Error(d)
	}
}

func TestInheritRefusesAnotherHistory(t *testing.T) {
	es := loopstest.Events(join(start(`"go"`), ask(1, 1, "a"))...)
	other := loopstest.EventsOf(fork2, start(`"go"`)...)
	wrong := func(change func(*events.Fork)) []events.Event {
		q, _ := forked(es, "null").(events.RunQueued)
		change(q.Fork)
		return loopstest.EventsOf(fork1, q)
	}
	for name, c := range map[string]struct {
		inherited, own []events.Event
		want           error
	}{
		"a gap":                     {append(es[:2:2], es[3]), nil, events.ErrGap},
		"out of order":              {append(es[:2:2], es[0]), nil, events.ErrBrokenChain},
		"two histories":             {append(es[:2:2], other[0]), nil, events.ErrGap},
		"nothing":                   {nil, wrong(func(*events.Fork) {}), events.ErrGap},
		"too little":                {es[:4], wrong(func(*events.Fork) {}), events.ErrGap},
		"another hash":              {es, wrong(func(f *events.Fork) { f.Hash = events.Hash{1} }), events.ErrBrokenChain},
		"inherited, and no fork":    {es, loopstest.EventsOf(fork1, start(`"go"`)...), events.ErrGap},
		"after the run's own event": {es, wrong(func(*events.Fork) {}), nil},
	} {
		h := loops.NewHistory(fork1)
		var err error
		for _, e := range c.inherited {
			if err == nil {
				err = h.Inherit(e)
			}
		}
		for _, e := range c.own {
			if err == nil {
				err = h.Apply(e)
			}
		}
		var fe *loops.FoldError
		if !errors.Is(err, c.want) || c.want != nil && !errors.As(err, &fe) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want == nil && h.Inherit(es[len(es)-1]) == nil {
			t.Errorf("%s: inherited", name)
		}
	}
}

// A history cut at any event folds and continues: temporalio/sdk-go#1594.
func TestForkAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := history(t)
		cut := rapid.IntRange(1, len(es)).Draw(t, "cut")
		input := rapid.SampledFrom([]string{"null", `"note"`}).Draw(t, "input")
		own := []events.Payload{forked(es[:cut], input), events.RunStarted{Loop: "singleshot"}}
		epoch := uint64(1)
		for range rapid.IntRange(0, 20).Draw(t, "own events") {
			own = append(own, payload(t, &epoch))
		}
		mine := loopstest.EventsOf(fork1, own...)
		at := rapid.IntRange(1, len(mine)).Draw(t, "cut of the fork")
		second := loopstest.EventsOf(fork2, forked(mine[:at], "null"), events.RunStarted{Loop: "singleshot"})
		build := func(run events.RunID, own []events.Event, from ...[]events.Event) *loops.History {
			h := loops.NewHistory(run)
			for _, part := range from {
				for _, e := range part {
					if err := h.Inherit(e); err != nil {
						t.Fatalf("inherit seq %d %s: %v", e.Seq, e.Type, err)
					}
				}
			}
			apply(t, h, own)
			return h
		}
		for _, h := range []*loops.History{
			build(fork1, mine[:2], es[:cut]), build(fork1, mine, es[:cut]), build(fork2, second, es[:cut], mine[:at]),
		} {
			sound(t, h)
			if len(h.InDoubt()) > 0 && h.Seq() == 2 {
				t.Fatal("the fork is in doubt about a call that it never made")
			}
			step, err := singleshot.New().Next(h)
			if _, over := h.Terminal(); over {
				continue
			}
			if err != nil && h.Control() == nil {
				t.Fatal(err)
			}
			if c, ok := step.(loops.CallModel); ok && len(c.Messages) > 0 && c.Messages[len(c.Messages)-1].Role == model.Assistant && len(c.Messages[len(c.Messages)-1].Calls) > 0 {
				t.Fatal("the model is asked with calls that have no outcome")
			}
		}
		if a, b := build(fork1, mine, es[:cut]), build(fork1, mine, es[:cut]); !reflect.DeepEqual(a, b) {
			t.Fatal("the same events give two histories")
		}
	})
}
