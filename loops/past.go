package loops

import (
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// Completed returns the calls of a tool that have completed in turns that the
// model has been told about, the oldest first, those of a fork's origin and those
// that were compacted included, and then those that a script has planned. It is read
// out of the transcript, and costs as much as that is long.
func (h *History) Completed(tool string) []tools.PastCall {
	var past []tools.PastCall
	for _, c := range h.past {
		if c.tool == tool {
			past = append(past, c.PastCall)
		}
	}
	completed(h.messages, func(name string, c tools.PastCall) {
		if name == tool {
			past = append(past, c)
		}
	})
	return append(past, h.plannedCompleted(tool)...)
}

// pastCall is a completed call that stands in the transcript no more.
type pastCall struct {
	tool string
	tools.PastCall
}

func (h *History) keepPast(ms []model.Message) {
	completed(ms, func(name string, c tools.PastCall) { h.past = append(h.past, pastCall{name, c}) })
}

func completed(ms []model.Message, f func(tool string, c tools.PastCall)) {
	var asked []model.Call
	for _, m := range ms {
		if m.Role == model.Assistant {
			asked = m.Calls
		}
		for i, r := range m.Results {
			if !r.Failed && i < len(asked) && asked[i].ID == r.CallID {
				f(r.Name, tools.PastCall{Arguments: asked[i].Arguments, Output: r.Text})
			}
		}
	}
}
