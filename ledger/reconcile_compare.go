package ledger

import (
	"errors"

	"github.com/daybookhq/daybook/events"
)

func rollbackReason(err error) (string, bool) {
	var back *RollbackError
	if !errors.As(err, &back) {
		return "", false
	}
	return back.Reason, true
}

// compare notes what the database lacks of one event.
func (c *reconciling) compare(k Known, m events.Message, e events.Sealed) {
	v := e.Envelope()
	d, err := e.Decode()
	if err != nil {
		d.Data = nil // of a later build, or poison: it is projected as it would have been
	}
	if !k.Runs[v.RunID] {
		c.lostRun(v, d.Data)
	}
	_, known := k.Epochs[v.RunID][v.Epoch]
	if !known {
		c.lostEpoch(v, d.Data, m)
	}
	stands, there := k.Events[v.RunID][v.Seq]
	switch {
	case there && stands != e.Hash() && !k.Aside[e.Hash()] && known && c.valid(k, v):
		c.forked[v.RunID] = true
	case m.Sequence > c.at.Confirmed: // it is still to be projected
	case !there && !k.Aside[e.Hash()] && (!known || c.valid(k, v)):
		c.out.Events++
		c.moved[v.RunID] = max(c.moved[v.RunID], v.Epoch)
	}
	c.effect(k, v, d.Data)
}

// valid reports whether the epochs that the database has allow the event.
func (c *reconciling) valid(k Known, v events.Envelope) bool {
	for epoch, base := range k.Epochs[v.RunID] {
		if epoch == v.Epoch && v.Seq <= base.Seq || epoch > v.Epoch && v.Seq > base.Seq {
			return false
		}
	}
	for epoch, lost := range c.epochs[v.RunID] {
		if lost.Known && epoch > v.Epoch && v.Seq > lost.Base.Seq {
			return false
		}
	}
	return true
}

func (c *reconciling) lostRun(v events.Envelope, p events.Payload) {
	r := c.runs[v.RunID]
	if r == nil {
		r = &LostRun{ID: v.RunID, First: v}
		c.runs[v.RunID] = r
	}
	if q, ok := p.(events.RunQueued); ok && r.Queued == nil {
		r.Queued, r.First = &q, v
	}
	r.Epoch = max(r.Epoch, v.Epoch)
	c.moved[v.RunID] = max(c.moved[v.RunID], v.Epoch)
}

// lostEpoch finds the base of an epoch in its own first event.
func (c *reconciling) lostEpoch(v events.Envelope, p events.Payload, m events.Message) {
	es := c.epochs[v.RunID]
	if es == nil {
		es = map[uint64]*LostEpoch{}
		c.epochs[v.RunID] = es
	}
	e := es[v.Epoch]
	if e == nil {
		e = &LostEpoch{Epoch: v.Epoch}
		es[v.Epoch] = e
	}
	c.moved[v.RunID] = max(c.moved[v.RunID], v.Epoch)
	if e.Known {
		return
	}
	if r, ok := p.(events.RunResumed); ok && r.Epoch == v.Epoch {
		e.Base, e.Known = Base{Seq: r.BaseSeq, Hash: r.BaseHash}, true
	} else if v.Seq == 1 {
		e.Base, e.Known = Base{Hash: events.Genesis(v.RunID)}, true
	}
	e.Worker, e.At = m.Worker, v.Time
}

// effect notes attempts and outcomes that the database does not have.
func (c *reconciling) effect(k Known, v events.Envelope, p events.Payload) {
	add := func(call events.CallID, tool string, ref events.EffectRef) *LostEffect {
		if settled, there := k.Attempts[ref.Token]; there && settled {
			return nil
		}
		e := c.effects[ref.Token]
		if e == nil {
			e = &LostEffect{Run: v.RunID, Call: call, Tool: tool, Ref: ref, Epoch: v.Epoch, Trace: v.Trace}
			c.effects[ref.Token] = e
			c.order = append(c.order, ref.Token)
		}
		return e
	}
	switch p := p.(type) {
	case events.ToolExecutionStarted:
		if p.Ref == nil {
			return
		}
		if _, there := k.Attempts[p.Ref.Token]; there {
			return
		}
		if e := add(p.Call, p.Tool, *p.Ref); e != nil && e.Started == nil {
			e.Started, e.Epoch, e.Trace = &p, v.Epoch, v.Trace
		}
	case events.ToolExecutionFinished:
		if p.Ref == nil || p.Repeated || p.Simulated {
			return
		}
		if e := add(p.Call, p.Tool, *p.Ref); e != nil {
			e.Outcome = &LostOutcome{State: events.EffectApplied, Result: p.Result}
		}
	case events.ToolExecutionError:
		if p.Ref == nil || p.Repeated {
			return
		}
		if e := add(p.Call, p.Tool, *p.Ref); e != nil && e.Outcome == nil {
			e.Outcome = &LostOutcome{State: events.EffectNotApplied, Result: p.Result, Error: p.Error}
		}
	case events.EffectResolved:
		if e := add(p.Call, p.Tool, p.Ref); e != nil && (e.Outcome == nil || e.Outcome.State != events.EffectApplied) {
			e.Outcome = &LostOutcome{State: p.State, Result: p.Result, By: p.By, Note: p.Note, Forced: p.Forced}
		}
	}
}
