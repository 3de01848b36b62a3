package main

import (
	"encoding/json"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
)

// strict is a loop that gives no second chance: the first call that is refused or
// fails ends the run, where singleshot would tell the model and let it try again. It
// decides from the history alone, so that whoever takes the run over decides the same.
type strict struct{}

func (strict) Name() string { return "strict" }

func (strict) Version() int { return 1 }

func (strict) Next(h *loops.History) (loops.Step, error) {
	if h.CancelRequested() != nil {
		return loops.Stop{By: events.StoppedByCancelled}, nil
	}
	if ps := h.Pending(); len(ps) > 0 { // dispatch is the runtime's: rules, approvals, effects, redaction
		return loops.CallTools{Turn: h.Turn(), Calls: ps}, nil
	}
	if ms := h.Messages(); ms[len(ms)-1].Role == model.Tool {
		for _, r := range ms[len(ms)-1].Results {
			if r.Failed {
				return loops.Stop{By: events.StoppedByDeclined, DeclinedBecause: r.Name + " " + r.Text}, nil
			}
		}
	}
	if a := h.Answer(); a != nil && len(a.ToolCalls) == 0 {
		if stop, unusable := loops.Unusable(a); unusable {
			return stop, nil
		}
		text, err := json.Marshal(a.Text)
		return loops.Stop{By: events.StoppedByFinish, Output: text}, err
	}
	return loops.AskModel(h), nil
}
