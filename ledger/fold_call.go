package ledger

import (
	"encoding/json"

	"github.com/daybookhq/daybook/events"
)

// late is the detail of an outcome that came after the call had another, or
// from an attempt that no longer counted.
const late = "late"

// applyCall folds the events of tool calls: one row per transition.
func (f *Fold) applyCall(e events.Event, out *Rows) {
	switch d := e.Data.(type) {
	case events.ToolExecutionStarted:
		rec := f.record(e, d.Call, d.Attempt, "started", d.Tool, d.Ref)
		rec.At = orElse(d.At, e.Time)
		rec.Effect, rec.Arguments, rec.StartedAt = clean(d.Effect), d.Arguments, rec.At
		f.start(rec)
		out.Calls = append(out.Calls, rec)
	case events.ToolExecutionProgress:
		rec := f.record(e, d.Call, d.Attempt, "progress", d.Tool, nil)
		rec.At = orElse(d.At, e.Time)
		rec.Result = rawOf(struct {
			Progress  string            `json:"progress"`
			Metadata  json.RawMessage   `json:"metadata,omitempty"`
			HandedOff *events.HandedOff `json:"handed_off,omitempty"`
		}{d.Progress, d.Metadata, d.HandedOff})
		if c := f.calls[d.Call]; c != nil {
			c.join(&rec)
			rec.Arguments = nil // the started row has them
		}
		out.Calls = append(out.Calls, rec)
	case events.ToolExecutionFinished:
		rec := f.record(e, d.Call, d.Attempt, "finished", d.Tool, d.Ref)
		rec.At, rec.LatencyMS = orElse(d.At, e.Time), &d.LatencyMS
		rec.Result, rec.Trust = rawOf(d.Result), clean(d.Result.Trust)
		rec.Repeated, rec.Of = d.Repeated, d.Of
		if d.Redacted {
			rec.Detail = "redacted"
		}
		if !d.Repeated { // an earlier outcome was paid for where it was made
			rec.Cost = d.Result.Cost
		}
		if d.Simulated {
			rec.Detail = "simulated"
		}
		f.end(rec, d.Repeated || d.Simulated || d.Completion != nil, out)
	case events.ToolExecutionError:
		rec := f.record(e, d.Call, d.Attempt, "error", d.Tool, d.Ref)
		rec.At, rec.LatencyMS = orElse(d.At, e.Time), &d.LatencyMS
		rec.Result, rec.Trust, rec.Cost, rec.Reason = rawOf(d.Result), clean(d.Result.Trust), d.Result.Cost, clean(d.Error.Kind)
		if rec.Repeated, rec.Of = d.Repeated, d.Of; d.Repeated {
			rec.Cost = nil
		}
		f.end(rec, d.Repeated || d.Completion != nil, out)
	case events.ToolExecutionBlocked:
		rec := f.record(e, d.Call, 0, "blocked", d.Tool, nil)
		rec.At = orElse(d.At, e.Time)
		rec.Arguments, rec.Result, rec.OpKey, rec.Of = d.Arguments, rawOf(d.Result), d.OpKey, d.Of
		rec.Reason, rec.Detail = clean(string(d.Reason)), clean(d.Detail)
		f.end(rec, true, out)
	case events.ToolExecutionInDoubt:
		rec := f.record(e, d.Call, d.Attempt, "in_doubt", d.Tool, &d.Ref)
		rec.At = orElse(d.At, e.Time)
		rec.Reason, rec.Detail = clean(d.Cause), clean(d.Evidence)
		f.doubt(rec, out)
	case events.EffectResolved:
		rec := f.record(e, d.Call, 0, "resolved", d.Tool, &d.Ref)
		rec.At = orElse(d.At, e.Time)
		rec.Result, rec.Trust, rec.Cost = rawOf(d.Result), clean(d.Result.Trust), d.Result.Cost
		rec.Reason, rec.Detail = clean(string(d.State)), clean(d.By)
		f.end(rec, false, out)
	}
}

func (f *Fold) record(e events.Event, call events.CallID, attempt int, status, tool string, ref *events.EffectRef) CallRecord {
	rec := CallRecord{
		Run: f.Run, Seq: e.Seq, Tenant: e.Tenant, Owner: f.Totals.Owner, SessionID: clean(e.SessionID),
		Call: call, Attempt: attempt, Status: status, Tool: clean(tool), Trace: clean(e.Trace),
	}
	if ref != nil {
		rec.OpKey, rec.Token, rec.Recovery = ref.OpKey, ref.Token, clean(ref.Recovery)
	}
	return rec
}

// start opens an attempt.
func (f *Fold) start(rec CallRecord) {
	c := f.calls[rec.Call]
	if c == nil {
		c = &foldedCall{}
		f.calls[rec.Call] = c
		if rec.Attempt <= 1 { // a later attempt of a call that has ended is the same call
			f.Totals.ToolCalls++
			if !rec.OpKey.IsZero() {
				f.Totals.Destructive++
			}
		}
	}
	c.started = append(c.started, rec)
}

// end gives a call its outcome. alone says that there need be no open started
// row: the call was not run, or somebody completed it after its attempt was over.
func (f *Fold) end(rec CallRecord, alone bool, out *Rows) {
	c, live := f.calls[rec.Call], false
	if c != nil {
		live = c.join(&rec)
	}
	if live || alone {
		rec.Terminal = true
		if c != nil && c.doubt != nil {
			f.Totals.Doubtful--
		}
		delete(f.calls, rec.Call)
	} else {
		rec.Detail = late
	}
	switch {
	case rec.Repeated:
		f.Totals.Repeated++
	case rec.Status == "blocked":
		f.Totals.Blocked++
	case rec.Cost == nil:
		f.Totals.Unmeasured++
	default:
		f.cost(rec.Cost)
	}
	out.Calls = append(out.Calls, rec)
}

// doubt notes that nobody can know how a call ended.
func (f *Fold) doubt(rec CallRecord, out *Rows) {
	c := f.calls[rec.Call]
	if c == nil {
		rec.Detail = late
	} else {
		c.join(&rec)
		if c.doubt == nil {
			f.Totals.Doubtful++
		}
		c.doubt = &rec
	}
	out.Calls = append(out.Calls, rec)
}

// join completes rec from the started row of its attempt (by token if it has
// one, else by number; for a destructive call any attempt of its effect will
// do) and reports whether that attempt still counts.
func (c *foldedCall) join(rec *CallRecord) (live bool) {
	found := -1
	for i, s := range c.started {
		switch {
		case !rec.Token.IsZero() && s.Token == rec.Token,
			rec.Token.IsZero() && s.Attempt == rec.Attempt,
			!rec.Token.IsZero() && found < 0:
			found = i
		}
	}
	if found < 0 {
		return false
	}
	s := c.started[found]
	rec.StartedAt, rec.Arguments = s.StartedAt, s.Arguments
	if rec.Effect = s.Effect; rec.Attempt == 0 {
		rec.Attempt = s.Attempt
	}
	if rec.Recovery == "" {
		rec.OpKey, rec.Token, rec.Recovery = s.OpKey, s.Token, s.Recovery
	}
	return found >= c.dead
}
