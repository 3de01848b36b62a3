package loops

import (
	"encoding/json"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// fold changes the history by one event. It must never fail: what does not fit
// the state it finds comes late, or from a worker that had lost its lease, and
// is left out of the transcript.
func (h *History) fold(e events.Event) {
	h.data = e.Data
	switch p := e.Data.(type) {
	case events.RunQueued:
		if h.first == nil {
			h.first = &p
		}
		if p.Fork != nil && e.Seq == 1 {
			h.branch(p)
			return
		}
		if p.Session != nil && !p.Session.Run.IsZero() && e.Seq == 1 {
			h.goOn(p)
			return
		}
		if h.queued != nil {
			return
		}
		h.queued = &p
		h.guarded(p)
		h.pinned = len(h.messages)
		h.add(0, model.Message{Role: model.User, Text: inputText(p.Input)})
	case events.RunStarted:
		if h.started == nil {
			h.started = &p
		}
		h.skilled(p)
		if h.begun.IsZero() {
			h.begun = e.Time
		}
	case events.RunResumed:
		h.resume()
	case events.RunParked:
		h.parked = &p
	case events.RunUnparked:
		h.parked = nil
	case events.RunFinished, events.RunFailed, events.RunCancelled:
		h.terminal = events.TypeOf(e.Data)
	case events.OperatorActed:
		if p.Verb == "cancel" && h.cancel == nil {
			h.cancel = &p
		}
	case events.SignalReceived:
		h.signalled(p)
	case events.TurnStarted:
		h.openTurn(p.Turn)
	case events.StepPlanned:
		h.plan(e.Seq, p)
	case events.ModelCallStarted:
		h.modelStarted(p)
	case events.ModelCallFinished:
		h.modelFinished(p)
	case events.ModelCallError:
		h.modelFailed(p)
	case events.ArtifactValidationFinished:
		if p.Turn == h.turn.number && h.turn.validation == nil {
			h.turn.validation = &p
		}
	case events.ArtifactRevisionStarted:
		h.closeTurn()
		h.revision = p.Revision
		h.turn.revised = true
		h.notes = append(h.notes, p.Input)
	case events.ArtifactFinished:
		h.turn.accepted = &p
	case events.ArtifactFailed:
		h.turn.rejected = &p
	case events.TranscriptCompacted:
		h.compact(p)
	default:
		h.foldTool(e.Data)
	}
}

// Input returns what the first user message of a run says; empty for a fork without one.
func Input(q *events.RunQueued) string {
	if q == nil || string(q.Input) == "null" {
		return ""
	}
	return inputText(q.Input)
}

// inputText returns what the first user message says: a JSON string's text, or
// the JSON itself.
func inputText(raw json.RawMessage) string {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// count adds what a model call was billed, whenever it came.
func (h *History) count(p events.Payload) {
	var u events.Usage
	switch p := p.(type) {
	case events.ModelCallFinished:
		u = p.Usage
	case events.ModelCallError:
		if p.Usage == nil {
			return
		}
		u = *p.Usage
	default:
		return
	}
	t := &h.usage
	t.Input += u.Input
	t.Output += u.Output
	t.CacheRead += u.CacheRead
	t.CacheWrite += u.CacheWrite
	t.Reasoning += u.Reasoning
	t.Missing = t.Missing || u.Missing
}

// resume closes whatever ended with the last holder: its model call and its
// calls without an effect, which are made again. Destructive executions stay
// open; only the ledger knows about them.
func (h *History) resume() {
	h.turn.open = nil
	for i := range h.turn.calls {
		c := &h.turn.calls[i]
		c.open = slices.DeleteFunc(c.open, func(o OpenCall) bool { return o.Ref == nil })
	}
}

// openTurn moves on to turn n; a turn that is open already stays as it is.
func (h *History) openTurn(n int) {
	if n <= h.turn.number {
		return
	}
	h.closeTurn()
	h.tell()
	h.parked = nil
	h.turn = turn{number: n, control: -1, route: turnRoute{decidedAt: h.before}}
	h.takeBasis()
}

// closeTurn answers calls that the loop left without an outcome: a transcript
// with an unanswered call is refused by providers. An effect that may have
// been begun is told as unknown and can still be settled.
func (h *History) closeTurn() {
	for i := range h.turn.calls {
		c := &h.turn.calls[i]
		if c.outcome != nil {
			continue
		}
		j := slices.IndexFunc(c.open, func(o OpenCall) bool { return o.Ref != nil })
		switch {
		case c.doubt != nil:
			h.leaveUnknown(c, *c.doubt)
		case j >= 0:
			o := c.open[j]
			h.leaveUnknown(c, events.ToolExecutionInDoubt{Call: o.ID, Attempt: o.Attempt, Tool: o.Tool, Ref: *o.Ref, Cause: "left_behind", Deadline: o.Deadline, Continue: true})
		default:
			h.settle(c, toldNotRun(c.asked.Name), events.ToolResult{})
		}
	}
}

func (h *History) modelStarted(p events.ModelCallStarted) {
	h.openTurn(p.Turn)
	if p.Turn != h.turn.number || h.turn.answer != nil {
		return
	}
	h.parked = nil
	r := &h.turn.route
	if p.Compacts != nil {
		r = h.compactionStarted(p)
	} else if h.offer == nil || h.offer.turn != p.Turn {
		h.offer = &offer{turn: p.Turn, after: len(h.messages), tools: p.Tools}
	}
	if h.turn.attempts == 0 {
		h.asked++
	}
	h.turn.attempts = max(h.turn.attempts, p.Attempt)
	r.model, r.endpoint = p.Model, p.Endpoint
	if p.Attempt > 0 && !slices.Contains(h.turn.open, p.Attempt) {
		h.turn.open = append(h.turn.open, p.Attempt)
	}
}

// closeAttempt reports whether the attempt was open, and closes it.
func (h *History) closeAttempt(turn, attempt int) bool {
	if turn != h.turn.number || h.turn.answer != nil {
		return false
	}
	h.turn.attempts = max(h.turn.attempts, attempt)
	i := slices.Index(h.turn.open, attempt)
	if i < 0 {
		return false
	}
	h.turn.open = slices.Delete(h.turn.open, i, i+1)
	return true
}

func (h *History) modelFinished(p events.ModelCallFinished) {
	if !h.closeAttempt(p.Turn, p.Attempt) {
		return // late: paid for, and not what the run went on from
	}
	t := &h.turn
	if c := t.compacting; c != nil && slices.Contains(c.attempts, p.Attempt) {
		c.answer, c.route = &p, turnRoute{}
		delete(h.routes, p.Model) // which endpoint the conversation stays with is the turns'
		return
	}
	t.answer, t.open, t.compacting = &p, nil, nil
	h.routeAnswered(p)
	h.takeBasis()
	if p.Text == "" && len(p.ToolCalls) == 0 {
		h.measure(p.Usage)
		return // providers refuse an empty message
	}
	m := model.Message{Role: model.Assistant, Text: p.Text, Blocks: p.Blocks, By: model.By(p.Model, p.Endpoint)}
	for i, asked := range p.ToolCalls {
		id := events.CallID{Turn: p.Turn, Index: i}
		t.calls = append(t.calls, call{id: id, asked: asked})
		m.Calls = append(m.Calls, model.Call{ID: id.String(), Name: asked.Name, Arguments: asked.Arguments})
	}
	t.outstanding = len(t.calls)
	h.add(p.Turn, m)
	h.measure(p.Usage)
}

// compactionStarted notes that a model is asked for the text of a compaction, and returns
// where that one goes.
func (h *History) compactionStarted(p events.ModelCallStarted) *turnRoute {
	t := &h.turn
	if t.compacting == nil {
		t.compacting = &compacting{}
	}
	t.compacting.span, t.compacting.answer = *p.Compacts, nil
	t.compacting.attempts = append(t.compacting.attempts, p.Attempt)
	return &t.compacting.route
}

func (h *History) modelFailed(p events.ModelCallError) {
	if !h.closeAttempt(p.Turn, p.Attempt) {
		return
	}
	if c := h.turn.compacting; c != nil && slices.Contains(c.attempts, p.Attempt) {
		if p.NextEndpoint == "" {
			c.failures++
		}
		c.last = &p
		h.routeFailed(&c.route, p, true)
	} else {
		if p.NextEndpoint == "" { // else the model has not failed yet
			h.turn.failures++
		}
		h.turn.lastError = &p
		h.routeFailed(&h.turn.route, p, false)
	}
}

// tell moves to the transcript what has become complete: the turn's results,
// and, when no model call is out, the notes.
func (h *History) tell() {
	t := &h.turn
	if t.outstanding > 0 || len(t.open) > 0 {
		return
	}
	if len(t.calls) > 0 && !t.told && t.op != events.OpCalls {
		t.told = true
		m := model.Message{Role: model.Tool, Results: make([]model.Result, len(t.calls))}
		for i := range t.calls {
			m.Results[i] = *t.calls[i].outcome
		}
		h.add(t.number, m)
	}
	for i, n := range h.notes {
		if i+1 == h.telling {
			h.told, h.telling = len(h.messages), 0
		}
		h.add(0, model.Message{Role: model.User, Text: n})
	}
	h.notes = nil
}
