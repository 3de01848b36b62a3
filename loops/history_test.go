package loops_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/model"
)

func id(turn, index int) events.CallID { return events.CallID{Turn: turn, Index: index} }

func start(input string) []events.Payload {
	return []events.Payload{
		events.RunQueued{Agent: "a", Input: json.RawMessage(input)},
		events.RunStarted{Loop: "singleshot", Model: "scripted/test"},
	}
}

func ask(turn, attempt int, calls ...string) []events.Payload {
	var cs []events.ToolCall
	for _, name := range calls {
		cs = append(cs, events.ToolCall{ProviderID: "same", Name: name, Arguments: json.RawMessage(`{}`)})
	}
	return []events.Payload{
		events.TurnStarted{Turn: turn},
		events.ModelCallStarted{Turn: turn, Attempt: attempt},
		events.ModelCallFinished{Turn: turn, Attempt: attempt, Text: "doing", ToolCalls: cs, Usage: events.Usage{Input: 1, Output: 1}},
	}
}

var ref = &events.EffectRef{Generation: 1, Attempt: 1}

func began(c events.CallID, r *events.EffectRef) events.Payload {
	return events.ToolExecutionStarted{Call: c, Attempt: 1, Tool: "x", Ref: r}
}

func ended(c events.CallID, out string, r *events.EffectRef) events.Payload {
	return events.ToolExecutionFinished{Call: c, Attempt: 1, Tool: "x", Ref: r, Result: events.ToolResult{Status: "completed", Output: out, Trust: "own"}}
}

func doubt(c events.CallID, goOn bool) events.Payload {
	return events.ToolExecutionInDoubt{Call: c, Attempt: 1, Tool: "x", Ref: *ref, Cause: "takeover", Continue: goOn}
}

func resolved(c events.CallID, s events.EffectState, out string) events.Payload {
	return events.EffectResolved{Call: c, Tool: "x", Ref: *ref, State: s, By: "ann", Result: events.ToolResult{Status: "completed", Output: out, Trust: "own"}}
}

func join(parts ...[]events.Payload) []events.Payload {
	var ps []events.Payload
	for _, p := range parts {
		ps = append(ps, p...)
	}
	return ps
}

func one(ps ...events.Payload) []events.Payload { return ps }

// lastResults returns the texts of the last message's results.
func lastTexts(h *loops.History) []string {
	ms := h.Messages()
	m := ms[len(ms)-1]
	if m.Role != model.Tool {
		return []string{string(m.Role) + ": " + m.Text}
	}
	var out []string
	for _, r := range m.Results {
		s := r.Name + " " + r.CallID + ": " + r.Text
		if r.Failed {
			s = "! " + s
		}
		out = append(out, s)
	}
	return out
}

func TestHistoryTellsOutcomes(t *testing.T) {
	resume := one(events.RunResumed{Epoch: 2})
	tests := []struct {
		name    string
		events  []events.Payload
		pending int
		inDoubt int
		last    []string
	}{
		{"results come in request order", join(ask(1, 1, "a", "b"), one(began(id(1, 0), nil), began(id(1, 1), nil), ended(id(1, 1), "B", nil), ended(id(1, 0), "A", nil))), 0, 0, []string{"a t1.c0: A", "b t1.c1: B"}},
		{"results wait for the last call", join(ask(1, 1, "a", "b"), one(began(id(1, 1), nil), ended(id(1, 1), "B", nil))), 1, 0, []string{"assistant: doing"}},
		{"an outcome without a start is late", join(ask(1, 1, "a"), one(ended(id(1, 0), "A", nil))), 1, 0, []string{"assistant: doing"}},
		{"a takeover closes a readonly call", join(ask(1, 1, "a"), one(began(id(1, 0), nil)), resume, one(ended(id(1, 0), "late", nil))), 1, 0, []string{"assistant: doing"}},
		{"a takeover leaves a destructive call open", join(ask(1, 1, "a"), one(began(id(1, 0), ref)), resume, one(ended(id(1, 0), "A", ref))), 0, 0, []string{"a t1.c0: A"}},
		{"a destructive call that began stays pending", join(ask(1, 1, "a"), one(began(id(1, 0), ref)), resume), 1, 0, []string{"assistant: doing"}},
		{"the first outcome stands", join(ask(1, 1, "a"), one(began(id(1, 0), ref), ended(id(1, 0), "A", ref), ended(id(1, 0), "B", ref))), 0, 0, []string{"a t1.c0: A"}},
		{"repeated is said", join(ask(1, 1, "a"), one(events.ToolExecutionFinished{Call: id(1, 0), Repeated: true, Result: events.ToolResult{Output: "A"}})), 0, 0, []string{"a t1.c0: (earlier result, not run again) A"}},
		{"blocked is an outcome", join(ask(1, 1, "a"), one(events.ToolExecutionBlocked{Call: id(1, 0), Tool: "a", Reason: events.BlockedUnknownTool})), 0, 0, []string{`! a t1.c0: not run (unknown_tool): there is no tool "a"`}},
		{"an error took no effect", join(ask(1, 1, "a"), one(began(id(1, 0), ref), events.ToolExecutionError{Call: id(1, 0), Attempt: 1, Ref: ref, Error: events.ErrorInfo{Message: "no such order"}})), 0, 0, []string{"! a t1.c0: failed, took no effect: no such order"}},
		{"in doubt waits", join(ask(1, 1, "a"), one(began(id(1, 0), ref), doubt(id(1, 0), false))), 1, 1, []string{"assistant: doing"}},
		{"late evidence settles doubt", join(ask(1, 1, "a"), one(began(id(1, 0), ref), doubt(id(1, 0), false), ended(id(1, 0), "A", ref))), 0, 0, []string{"a t1.c0: A"}},
		{"resolved as applied", join(ask(1, 1, "a"), one(doubt(id(1, 0), false), resolved(id(1, 0), events.EffectApplied, "A"))), 0, 0, []string{"a t1.c0: A"}},
		{"resolved as not applied", join(ask(1, 1, "a"), one(doubt(id(1, 0), false), resolved(id(1, 0), events.EffectNotApplied, ""))), 0, 0, []string{"! a t1.c0: failed, took no effect: found out after an interruption"}},
		{"resolved as abandoned", join(ask(1, 1, "a"), one(doubt(id(1, 0), false), resolved(id(1, 0), events.EffectAbandoned, ""))), 0, 0, []string{"! a t1.c0: given up as unknown; nobody knows whether it took effect, do not retry it"}},
		{"begun again is no longer in doubt", join(ask(1, 1, "a"), one(doubt(id(1, 0), false), events.ToolExecutionStarted{Call: id(1, 0), Attempt: 2, Ref: ref})), 1, 0, []string{"assistant: doing"}},
		{"continue goes on as unknown", join(ask(1, 1, "a"), one(began(id(1, 0), ref), doubt(id(1, 0), true))), 0, 0, []string{"! a t1.c0: unknown whether it took effect; do not retry it and do not rely on it either way"}},
		{"a late resolution becomes a note", join(ask(1, 1, "a"), one(doubt(id(1, 0), true)), ask(2, 1, "b"), one(resolved(id(1, 0), events.EffectApplied, "A"), began(id(2, 0), nil), ended(id(2, 0), "B", nil))), 0, 0, []string{"user: Note about the call t1.c0, reported as unknown before: it took effect, with this result: A"}},
		{"a note waits for the model call that is out", join(ask(1, 1, "a"), one(doubt(id(1, 0), true), events.ModelCallStarted{Turn: 2, Attempt: 1}, resolved(id(1, 0), events.EffectApplied, "A"))), 0, 0, []string{"! a t1.c0: unknown whether it took effect; do not retry it and do not rely on it either way"}},
		{"calls left behind are told as not run", join(ask(1, 1, "a"), one(events.ArtifactRevisionStarted{Revision: 1, Input: "again"})), 0, 0, []string{"user: again"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := loopstest.MustFold(t, join(start(`"hello"`), tt.events)...)
			if n := len(h.Pending()); n != tt.pending {
				t.Errorf("%d calls pending, want %d", n, tt.pending)
			}
			if n := len(h.InDoubt()); n != tt.inDoubt {
				t.Errorf("%d calls in doubt, want %d", n, tt.inDoubt)
			}
			if d := cmp.Diff(tt.last, lastTexts(h)); d != "" {
				t.Errorf("last message (-want +got):\n%s", d)
			}
		})
	}
}

func TestHistoryRefuses(t *testing.T) {
	es := loopstest.Events(join(start(`"x"`), one(events.RunResumed{Epoch: 2}))...)
	tests := []struct {
		name   string
		change func(e *events.Event)
		what   string
		is     error
	}{
		{"a gap", func(e *events.Event) { e.Seq++ }, "seq", events.ErrGap},
		{"a repeat", func(e *events.Event) { e.Seq-- }, "seq", events.ErrBrokenChain},
		{"another run", func(e *events.Event) { e.RunID[0]++ }, "run", events.ErrBrokenChain},
		{"a wrong prev", func(e *events.Event) { e.Prev[0]++ }, "prev", events.ErrBrokenChain},
		{"an older epoch", func(e *events.Event) { e.Epoch = 0 }, "epoch", events.ErrBrokenChain},
		{"an earlier time", func(e *events.Event) { e.Time = loopstest.Start }, "time", events.ErrBrokenChain},
		{"no data", func(e *events.Event) { e.Data = nil }, "data", events.ErrUnknownType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := loops.NewHistory(loopstest.Run)
			for _, e := range es[:2] {
				if err := h.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			bad := es[2]
			tt.change(&bad)
			err := h.Apply(bad)
			var fe *loops.FoldError
			if !errors.As(err, &fe) || fe.What != tt.what || !errors.Is(err, tt.is) || fe.Run != loopstest.Run || fe.Seq != bad.Seq {
				t.Fatalf("Apply = %v, want a FoldError about %s wrapping %v", err, tt.what, tt.is)
			}
			if err := h.Apply(es[2]); err != nil {
				t.Errorf("the right event after the refusal: %v", err)
			}
		})
	}
}
