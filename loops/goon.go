package loops

import (
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// goOn is where a run of a session goes on from the run before it: the transcript is
// one, and so are the numbers of turns and calls in it; what the other run was bound
// to, waited for, had planned or failed at was its own. Calls that it left without an
// outcome are answered, as where a turn ends with some: nobody will make them.
func (h *History) goOn(q events.RunQueued) {
	h.turn.open = nil
	h.closeTurn()
	if h.left != "" {
		h.notes = append(h.notes, toldLeft(h.left))
	}
	h.tell()
	h.turn = turn{number: h.turn.number, control: -1, over: true, basis: Basis{External: h.external}}
	h.base, h.left = h.turn.number, ""
	h.queued, h.first, h.started, h.bound = &q, &q, nil, nil
	h.begun = time.Time{}
	h.plans, h.asked, h.revision = nil, 0, 0
	h.parked, h.cancel, h.offer, h.routes = nil, nil, nil, nil
	h.told, h.telling = 0, 0
	h.guarded(q)
	h.pinned = len(h.messages)
	h.add(0, model.Message{Role: model.User, Text: inputText(q.Input)})
}

// toldLeft says that the run before ended otherwise than by an answer.
func toldLeft(by string) string {
	return fmt.Sprintf("Note: the work on the message before was stopped (%s). Calls that were made stand; do not go on with it unless asked to.", by)
}

// InheritedUnknown returns the calls of the runs before in its session that the model
// was told are unknown, as [History.Unknown] does of all: what becomes of them is told
// to nobody but whoever asks the ledger.
func (h *History) InheritedUnknown() (ds []events.ToolExecutionInDoubt) {
	for _, d := range h.unknown {
		if d.Call.Turn <= h.base {
			ds = append(ds, d)
		}
	}
	return ds
}
