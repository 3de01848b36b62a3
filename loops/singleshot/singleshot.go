// Package singleshot is the loop for agents that work with tools: the model
// answers, its calls are performed, their results go back to it, until it
// finishes, declines or has nothing more to say. It makes no artifacts.
package singleshot

import (
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/loops"
)

// Name is what agents call this loop.
const Name = "singleshot"

// New returns the loop. It holds no state.
func New() loops.Loop { return loop{} }

type loop struct{}

func (loop) Name() string { return Name }

func (loop) Version() int { return 1 }

// Next decides in this order:
//
//  1. a request to cancel stops the run;
//  2. calls without an outcome are performed, all of them: a finish beside
//     other calls must not cut short what the model asked for with it. If one
//     is in doubt the run waits;
//  3. a result with Control "finish" or "decline" stops the run, the first in
//     request order if there are several;
//  4. an answer without calls stops it: with its text as the output (or the JSON
//     that it is, if the agent states a schema), as
//     declined if the provider says that the model refused, as silent without
//     text, and as an error if it was cut off at the token limit, since half an
//     answer is none;
//  5. the next turn is the model's, unless that is one too many, or the model
//     call has failed for good or too often. Where the last attempt may be
//     repeated only from [events.ModelCallError].RetryAt on, the step is
//     CallModel all the same: waiting is the runtime's.
//
// Attempts cut short by a crash are no failures and use up nothing.
func (loop) Next(h *loops.History) (loops.Step, error) {
	if h.Queued() == nil || h.Started() == nil {
		return nil, fmt.Errorf("decide run %s seq %d: the run has not been queued and started", h.Run(), h.Seq())
	}
	if h.CancelRequested() != nil {
		return loops.Stop{By: events.StoppedByCancelled}, nil
	}
	if ds := h.InDoubt(); len(ds) > 0 {
		return loops.Await{Reason: events.ParkInDoubt, Detail: fmt.Sprintf("%s of %s", ds[0].Call, ds[0].Tool)}, nil
	}
	if ps := h.Pending(); len(ps) > 0 {
		return loops.CallTools{Turn: h.Turn(), Calls: ps}, nil
	}
	if r := h.Control(); r != nil {
		return stopByControl(h, r)
	}
	if a := h.Answer(); a != nil && len(a.ToolCalls) == 0 {
		return stopByAnswer(h, a), nil
	}
	return loops.AskModel(h), nil
}

func stopByControl(h *loops.History, r *events.ToolResult) (loops.Step, error) {
	switch r.Control {
	case "finish":
		return loops.Stop{By: events.StoppedByFinish, Output: output(r.Output)}, nil
	case "decline":
		return loops.Stop{By: events.StoppedByDeclined, Output: output(r.Output), DeclinedBecause: because(r.Output)}, nil
	}
	return nil, fmt.Errorf("decide run %s seq %d: a tool result has control %q, want finish or decline", h.Run(), h.Seq(), r.Control)
}

func stopByAnswer(h *loops.History, a *events.ModelCallFinished) loops.Step {
	if stop, ok := loops.Unusable(a); ok {
		return stop
	}
	if a.Text == "" {
		return loops.Stop{By: events.StoppedBySilent}
	}
	if !h.Started().OutputHash.IsZero() { // the runtime checks it
		if v, err := canonical.JSON([]byte(a.Text)); err == nil {
			return loops.Stop{By: events.StoppedByFinish, Output: json.RawMessage(v)}
		}
	}
	return loops.Stop{By: events.StoppedByFinish, Output: text(a.Text)}
}

// output is a JSON object or array as it is, anything else as a JSON string:
// an answer that reads 42 stays the text it was.
func output(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	if (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return text(s)
}

func text(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}

// because is the reason in a decline's output: its field "because" if it is an
// object that has one, else the whole.
func because(s string) string {
	var o struct {
		Because string `json:"because"`
	}
	if json.Unmarshal([]byte(s), &o) == nil && o.Because != "" {
		return o.Because
	}
	return s
}
