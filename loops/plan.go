package loops

import (
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// What a script waits for is a call of its own tools, which no model can ask for
// and no registry holds. Stored; never renamed.
const (
	SleepTool  = "script__sleep"
	SignalTool = "script__signal"
	ChildTool  = "script__child"
)

// Planned is a step of a script, and what came of it so far.
type Planned struct {
	events.StepPlanned
	Seq uint64 // of the event that says so
	// Done: nothing of it is outstanding, since At, the time of the event that
	// brought the last of it.
	Done bool
	At   time.Time
	// Answer is the model's last one. Control is the result of a tool that ended the
	// step; Failed says why there is no answer, nor will be.
	Answer  *events.ModelCallFinished
	Control *events.ToolResult
	Failed  *events.ErrorInfo
	// Ends are the events that gave the calls their outcomes, in the order of the calls.
	Ends []events.Payload
	// Verdict is that on the artifact.
	Verdict *events.ArtifactValidationFinished

	from int // message with which the model is asked
}

// Planned returns the steps of a script, inherited ones included.
func (h *History) Planned() []*Planned { return slices.Clip(h.plans) }

// Origin returns how the oldest run was submitted whose history this is: the run
// itself, or where a fork begins. Nil before run_queued.
func (h *History) Origin() *events.RunQueued { return h.first }

// Begun returns when that run was started; zero before.
func (h *History) Begun() time.Time { return h.begun }

// ModelTurns counts the turns in which the model was asked.
func (h *History) ModelTurns() int { return h.asked }

// FreeTurn returns the turn that a step of a script opens: the turn in hand if
// nothing has happened in it, else the next.
func (h *History) FreeTurn() int {
	if h.turn.number > 0 && h.turn.untouched() {
		return h.turn.number
	}
	return h.turn.number + 1
}

func (t *turn) untouched() bool {
	return !t.over && t.op == "" && t.answer == nil && t.attempts == 0 && t.validation == nil
}

// plan takes up a step of a script.
func (h *History) plan(seq uint64, p events.StepPlanned) {
	if p.Step != len(h.plans)+1 {
		return
	}
	at := &Planned{StepPlanned: p, Seq: seq}
	if p.Op != events.OpPatch {
		h.openTurn(p.Turn)
		t := &h.turn
		if t.number != p.Turn || !t.untouched() {
			return
		}
		t.op = p.Op
		switch p.Op {
		case events.OpModel:
			at.from = len(h.messages)
			h.add(0, model.Message{Role: model.User, Text: p.Text})
		case events.OpCalls:
			for i, asked := range p.Calls {
				t.calls = append(t.calls, call{id: events.CallID{Turn: p.Turn, Index: i}, asked: asked})
			}
			t.outstanding = len(t.calls)
		}
	}
	h.plans = append(h.plans, at)
}

// progress notes what the event of that time brought the step in hand.
func (h *History) progress(now time.Time) {
	if len(h.plans) == 0 {
		return
	}
	p, t := h.plans[len(h.plans)-1], &h.turn
	if p.Done || p.Op != events.OpPatch && t.number < p.Turn {
		return
	}
	switch p.Op {
	case events.OpPatch:
		p.Done = true
	case events.OpCalls:
		if p.Done = t.outstanding == 0; p.Done {
			for i := range t.calls {
				p.Ends = append(p.Ends, t.calls[i].end)
			}
		}
	case events.OpArtifact:
		if v := t.validation; v != nil {
			p.Verdict = v
			p.Done = v.Error != nil || !v.OK || t.accepted != nil
		}
	case events.OpModel:
		h.asking(p)
	}
	if p.Done {
		p.At = now
	}
}

// asking is progress of a step that asks the model.
func (h *History) asking(p *Planned) {
	t := &h.turn
	if a := t.answer; a != nil {
		p.Answer = a
		_, unusable := Unusable(a)
		p.Done = unusable || !p.Tools || len(a.ToolCalls) == 0
		if !p.Done && t.outstanding == 0 && t.control >= 0 {
			p.Done, p.Control = true, &t.calls[t.control].result
		}
		return
	}
	if e := h.failedForGood(); e != nil {
		p.Done, p.Failed = true, &e.Error
	}
}

// unfail takes back, for a fork, that its origin got no answer from the model.
func (h *History) unfail() {
	if n := len(h.plans); n > 0 && h.plans[n-1].Failed != nil {
		p := *h.plans[n-1]
		p.Done, p.Failed, p.At = false, nil, time.Time{}
		h.plans[n-1] = &p
	}
}

// plannedTurn returns the step whose calls those of a turn are, nil if they are a model's.
func (h *History) plannedTurn(turn int) *Planned {
	for _, p := range slices.Backward(h.plans) {
		if p.Op == events.OpCalls && p.Turn == turn {
			return p
		}
	}
	return nil
}

// plannedCompleted are the calls of a tool that a script has planned and that
// have completed.
func (h *History) plannedCompleted(tool string) (past []tools.PastCall) {
	for _, p := range h.plans {
		for i, end := range p.Ends {
			if f, ok := end.(events.ToolExecutionFinished); ok && p.Calls[i].Name == tool && f.Result.Status != "failed" {
				past = append(past, tools.PastCall{Arguments: p.Calls[i].Arguments, Output: f.Result.Output})
			}
		}
	}
	return past
}

// Continue returns how the runtime goes on with the step in hand of a script,
// which is not done: nothing of it is decided by the code.
func (h *History) Continue() Step {
	p := h.plans[len(h.plans)-1]
	if ds := h.InDoubt(); len(ds) > 0 {
		return Await{Reason: events.ParkInDoubt, Detail: ds[0].Call.String() + " of " + ds[0].Tool}
	}
	if ps := h.Pending(); len(ps) > 0 {
		return CallTools{Turn: h.Turn(), Calls: ps}
	}
	if hs := h.HandedOff(); len(hs) > 0 {
		return Await{Reason: hs[0].Reason, Detail: hs[0].ID.String() + " of " + hs[0].Tool, Until: hs[0].Until}
	}
	if p.Op == events.OpArtifact {
		return h.judge(p)
	}
	if h.turn.answer != nil || h.turn.attempts == 0 { // another turn of the model's
		if h.asked >= h.MaxTurns() {
			return tooManyTurns(h)
		}
	}
	messages := h.Messages()
	if !p.Continue {
		messages = messages[min(p.from, len(messages)):]
	}
	return CallModel{Turn: h.NextTurn(), Messages: messages, WithoutTools: !p.Tools}
}

func (h *History) judge(p *Planned) Step {
	if v := h.turn.validation; v != nil { // and accepted it, or the step were done
		return AcceptArtifact{Artifact: events.ArtifactFinished{Name: v.Artifact, Revision: v.Revision, Content: v.Content, Bytes: v.Bytes}}
	}
	revision := 0
	for _, q := range h.plans[:len(h.plans)-1] {
		if q.Op == events.OpArtifact && q.Name == p.Name {
			revision++
		}
	}
	return CheckArtifact{Turn: p.Turn, Artifact: p.Name, Revision: revision, Parser: p.Parser, Validators: p.Validators, Text: p.Text}
}

// ownTool reports whether a tool is one of a script's own.
func ownTool(name string) bool { return name == SleepTool || name == SignalTool || name == ChildTool }

// OwnTool reports whether c waits for something on behalf of a script.
func (c PendingCall) OwnTool() bool { return c.Planned && ownTool(c.Name) }

// OwnTool reports whether h waits for something on behalf of a script.
func (h HandedOff) OwnTool() bool { return h.Planned && ownTool(h.Tool) }
