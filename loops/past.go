package loops

import (
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// Completed returns the calls of a tool that have completed in turns that the
// model has been told about, the oldest first, those of a fork's origin
// included, and then those that a script has planned. It is read out of the transcript, and costs as much as that is long.
func (h *History) Completed(tool string) []tools.PastCall {
	var past []tools.PastCall
	var asked []model.Call
	for _, m := range h.messages {
		if m.Role == model.Assistant {
			asked = m.Calls
		}
		for i, r := range m.Results {
			if r.Name == tool && !r.Failed && i < len(asked) && asked[i].ID == r.CallID {
				past = append(past, tools.PastCall{Arguments: asked[i].Arguments, Output: r.Text})
			}
		}
	}
	return append(past, h.plannedCompleted(tool)...)
}
