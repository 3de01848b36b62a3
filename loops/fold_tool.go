package loops

import (
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// foldTool changes the history by what happened to a tool call.
func (h *History) foldTool(data events.Payload) {
	switch p := data.(type) {
	case events.ToolExecutionStarted:
		h.toolStarted(p)
	case events.ToolExecutionProgress:
		h.toolHandedOff(p)
	case events.ToolExecutionFinished:
		h.toolEnded(p.Call, p.Attempt, p.Ref != nil || p.Repeated || p.Completion != nil || p.Simulated, toldFinished(p), p.Result)
	case events.ToolExecutionError:
		// Begun, and the worker ran out of time before the first byte went out: no
		// news of the tool, so nothing to tell the model.
		if p.Ref != nil && p.Error.Kind == tools.KindNotRun && h.again(p.Call) {
			return
		}
		h.toolEnded(p.Call, p.Attempt, p.Ref != nil || p.Completion != nil, toldError(p), p.Result)
	case events.ToolExecutionBlocked:
		// Not run, so whatever the dispatcher quotes is its own word.
		r := p.Result
		if r.Trust == "" {
			r.Trust = "own"
		}
		h.toolEnded(p.Call, 0, true, toldBlocked(p), r)
	case events.EffectResolved:
		if p.By == events.ResolvedByProbe && p.State == events.EffectNotApplied && h.again(p.Call) {
			return
		}
		h.toolEnded(p.Call, p.Ref.Attempt, true, toldResolved(p), p.Result)
	case events.ToolExecutionInDoubt:
		h.toolInDoubt(p)
	}
}

// maxRemade is how often a call is made in all before the model is told that it
// took no effect: time that is always up too early must not go on for ever.
const maxRemade = 5

// again puts a call back among the pending ones: it certainly did not happen,
// so it is made, not told as failed. It reports whether there is such a call.
func (h *History) again(id events.CallID) bool {
	c := h.find(id)
	if c == nil || c.attempts >= maxRemade {
		return false
	}
	c.doubt, c.open, c.handed = nil, nil, nil
	return true
}

// find returns a call of the turn in hand that has no outcome yet, else nil.
func (h *History) find(id events.CallID) *call {
	if id.Turn != h.turn.number || id.Index < 0 || id.Index >= len(h.turn.calls) {
		return nil
	}
	if c := &h.turn.calls[id.Index]; c.outcome == nil {
		return c
	}
	return nil
}

func (h *History) toolStarted(p events.ToolExecutionStarted) {
	c := h.find(p.Call)
	if c == nil {
		return
	}
	h.parked = nil
	c.attempts = max(c.attempts, p.Attempt)
	// Only Begin starts a call again that was in doubt: it is running now.
	c.doubt, c.handed = nil, nil
	if p.Attempt > 0 && c.isOpen(p.Attempt) < 0 {
		c.open = append(c.open, OpenCall{ID: p.Call, Attempt: p.Attempt, Tool: p.Tool, Ref: p.Ref, Deadline: p.Deadline})
	}
}

func (c *call) isOpen(attempt int) int {
	return slices.IndexFunc(c.open, func(o OpenCall) bool { return o.Attempt == attempt })
}

// toolEnded gives a call its outcome. sure outcomes count whether or not their
// attempt is open: the ledger stands behind them. Others count only while it is.
func (h *History) toolEnded(id events.CallID, attempt int, sure bool, told model.Result, r events.ToolResult) {
	if i := slices.IndexFunc(h.unknown, func(d events.ToolExecutionInDoubt) bool { return d.Call == id }); i >= 0 {
		if sure {
			if h.plannedTurn(id.Turn) == nil { // else the model does not know of it
				h.notes = append(h.notes, toldNote(id, told))
			}
			h.taint(id, h.unknown[i].Tool, r)
			h.unknown = slices.Delete(h.unknown, i, i+1)
		}
		return
	}
	c := h.find(id)
	if c == nil || !sure && c.isOpen(attempt) < 0 {
		return
	}
	h.settle(c, told, r)
	h.taint(id, c.asked.Name, r)
}

// taint notes the first result that brought text in from outside.
func (h *History) taint(id events.CallID, tool string, r events.ToolResult) {
	if h.external == nil && taints(r) {
		h.external = &External{Call: id, Tool: tool, Trust: r.Trust}
	}
}

// settle gives c its outcome.
func (h *History) settle(c *call, told model.Result, r events.ToolResult) {
	told.CallID, told.Name = c.id.String(), c.asked.Name
	c.outcome, c.result, c.end = &told, r, h.data
	c.open, c.doubt, c.handed = nil, nil, nil
	h.turn.outstanding--
	if r.Control != "" && !told.Failed && (h.turn.control < 0 || c.id.Index < h.turn.control) {
		h.turn.control = c.id.Index
	}
}

func (h *History) toolInDoubt(p events.ToolExecutionInDoubt) {
	c := h.find(p.Call)
	if c == nil {
		return
	}
	c.attempts = max(c.attempts, p.Attempt)
	if p.Continue {
		h.leaveUnknown(c, p)
		return
	}
	if i := c.isOpen(p.Attempt); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
	c.doubt, c.handed = &p, nil
}

// leaveUnknown tells the model that nobody knows and lets the run go on; what
// settles the call later becomes a note.
func (h *History) leaveUnknown(c *call, p events.ToolExecutionInDoubt) {
	h.settle(c, toldUnknown(), events.ToolResult{})
	h.unknown = append(h.unknown, p)
}

// taints reports whether a result brought text in from outside: unknown is not safe.
func taints(r events.ToolResult) bool { return r.Trust != "own" }
