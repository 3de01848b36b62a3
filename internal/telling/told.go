package telling

import (
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Told says what an event means to somebody who reads the run as a
// conversation. What only the machinery needs is left out; an event of a type
// that has no place of its own here is told in the words that runs tail has for it.
func (t *Teller) Told(e events.Event, rows ledger.Rows) {
	t.count(rows)
	v := &ToldView{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Type: e.Type}
	switch d := e.Data.(type) {
	case events.TurnStarted, events.ModelCallStarted, events.ArtifactValidationStarted:
		return // what came of it is told
	case events.RunQueued, events.RunStarted, events.RunResumed, events.RunParked, events.RunUnparked, events.TimerFired:
		if !t.course(v, d) {
			return
		}
	case events.RunFinished, events.RunFailed, events.RunCancelled:
		t.finish(v, d)
	case events.ModelCallFinished, events.ModelCallError:
		t.model(v, d, rows)
	case events.ToolExecutionStarted, events.ToolExecutionProgress, events.ToolExecutionFinished, events.ToolExecutionError,
		events.ToolExecutionBlocked, events.ToolExecutionInDoubt, events.EffectResolved:
		t.tool(v, d, rows)
	default:
		t.outside(v, d)
	}
	t.Tell(v)
}

// course is how the run goes: asked, begun, waiting, carried on.
func (t *Teller) course(v *ToldView, p events.Payload) bool {
	switch d := p.(type) {
	case events.RunQueued:
		v.Kind, v.Label, v.Data = ToldInput, "user", d.Input
		switch {
		case d.Fork != nil && string(d.Input) == "null":
			v.Kind, v.Label, v.Run, v.Data = ToldNote, "fork", d.Fork.Run, nil
			v.Text = fmt.Sprintf("goes on by itself after event %d of run %s, effects %s", d.Fork.Seq, d.Fork.Run, d.Fork.Effects)
		case d.Fork != nil:
			v.Run = d.Fork.Run
			v.Text = fmt.Sprintf("to the fork of run %s after event %d, effects %s", d.Fork.Run, d.Fork.Seq, d.Fork.Effects)
		case !d.RetryOf.IsZero():
			v.Run = d.RetryOf
			v.Text = fmt.Sprintf("attempt %d of the same work: what run %s and others of the lineage did is handed back, not done again", d.Attempt, d.RetryOf)
		}
	case events.RunStarted:
		t.Bound, t.worker = true, d.Worker
		v.Kind, v.Label, v.Layers, v.Prompt, v.Model = ToldPrompt, "prompt", d.PromptLayers, d.PromptHash, d.Model
		v.Text = LayerNames(d.PromptLayers)
	case events.RunResumed:
		after := t.wait
		t.awake(v.Time)
		if !t.Bound || t.ended { // its first holder was lost before it began, or the record is settled
			t.worker = d.Worker
			return false
		}
		v.Kind, v.Status, v.By, v.Tone = ToldResume, "taken_over", d.Worker, ToneWarn
		if after != nil {
			v.Status, v.Tone = "resumed", ToneSoft
			v.Text = "resumed by worker " + d.Worker
		} else {
			v.Text = fmt.Sprintf("taken over by worker %s in epoch %d", d.Worker, d.Epoch)
			if t.worker != "" && t.worker != d.Worker {
				v.Text += ", after " + t.worker
			}
		}
		if d.SetAside > 0 {
			v.Text += fmt.Sprintf("; %s of the last holder set aside", Plural(int64(d.SetAside), "event"))
		}
		t.worker = d.Worker
	case events.RunParked:
		v.Kind, v.Label, v.Status, v.Text, v.Until, v.Tone = ToldWait, "waits", string(d.Reason), d.Detail, d.Until, ToneWarn
		t.wait = v
	case events.RunUnparked:
		t.awake(v.Time)
		return false
	case events.TimerFired:
		t.awake(v.Time)
		return false
	}
	return true
}

// awake ends a wait.
func (t *Teller) awake(at time.Time) {
	if t.wait == nil {
		return
	}
	ms := at.Sub(t.wait.Time).Milliseconds()
	t.wait.WaitedMS, t.wait.Label, t.wait.Tone = &ms, "waited", ToneSoft
	t.wait = nil
}

func (t *Teller) finish(v *ToldView, p events.Payload) {
	v.Kind, v.Label = ToldEnd, "finished"
	switch d := p.(type) {
	case events.RunFinished:
		v.Status, v.Text, v.Data = string(d.StoppedBy), d.DeclinedBecause, d.Output
	case events.RunFailed:
		v.Label, v.Status, v.Text, v.Tone = "failed", string(d.StoppedBy), Either(": ", When(d.Error.Kind != string(d.StoppedBy), d.Error.Kind), d.Error.Message), ToneBad
	case events.RunCancelled:
		v.Label, v.Status, v.By, v.Text, v.Tone = "cancelled", string(events.StoppedByCancelled), d.By, d.Reason, ToneWarn
	}
}

func (t *Teller) model(v *ToldView, p events.Payload, rows ledger.Rows) {
	if len(rows.Models) == 1 {
		m := rows.Models[0]
		v.Usage, v.Cost, v.Unpriced, v.Late = m.Usage, m.Cost, m.Unpriced(), m.State == "late"
		v.ServedModel, v.LatencyMS = m.ServedModel, m.LatencyMS
	}
	switch d := p.(type) {
	case events.ModelCallFinished:
		v.Kind, v.Turn, v.Attempt, v.Model, v.Status, v.Text, v.ToolCalls = ToldAnswer, d.Turn, d.Attempt, d.Model, d.StopReason, d.Text, d.ToolCalls
		v.Reasoning = reasoningOf(d.Blocks)
		if v.Late {
			v.Label, v.Tone = "late answer", ToneSoft
			return
		}
		if d.Purpose != "" { // no answer to anybody in the conversation
			v.Kind, v.Label, v.Text, v.ToolCalls, v.Reasoning, v.Tone = ToldNote, "model call "+purpose(d.Purpose), "", nil, "", ToneSoft
			return
		}
		if d.Turn == t.Cur.Turn {
			t.Cur.Asked = d.ToolCalls
		}
	case events.ModelCallError:
		v.Kind, v.Label, v.Tone = ToldFailure, Either(" ", fmt.Sprintf("attempt %d", d.Attempt), purpose(d.Purpose), "failed"), ToneBad
		v.Turn, v.Attempt, v.Model, v.Status, v.Text, v.Until = d.Turn, d.Attempt, d.Model, d.Error.Kind, d.Error.Message, d.RetryAt
		if d.Retryable {
			v.Label, v.Tone = v.Label+", is tried again", ToneWarn
		}
	}
}

// reasoningOf is what may be read of what a model thought.
func reasoningOf(bs []events.Block) string {
	var parts []string
	for _, b := range bs {
		if b.Kind == events.BlockReasoning && b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func (t *Teller) tool(v *ToldView, p events.Payload, rows ledger.Rows) {
	var call events.CallID
	result := func(r events.ToolResult, ms *int64) {
		v.Status, v.Text, v.Cost, v.LatencyMS = r.Status, Said(r), r.Cost, ms
		v.Unmeasured = r.Cost == nil
	}
	v.Kind = ToldResult
	switch d := p.(type) {
	case events.ToolExecutionStarted:
		call, v.Kind, v.Tool, v.Attempt, v.Effect, v.Data = d.Call, ToldCall, d.Tool, d.Attempt, d.Effect, d.Arguments
		if !d.Approval.IsZero() {
			v.Status = "approved"
		}
	case events.ToolExecutionProgress:
		call, v.Kind, v.Tool, v.Attempt, v.Text, v.Data, v.Tone = d.Call, ToldProgress, d.Tool, d.Attempt, d.Progress, d.Metadata, ToneSoft
		if h := d.HandedOff; h != nil {
			v.Status, v.Run, v.Until = "handed_off", h.Child, h.Until
			v.Text = Either(": ", "handed off", Either(", ", With("waits for ", string(h.Reason)), d.Progress))
		}
	case events.ToolExecutionFinished:
		call, v.Tool, v.Attempt, v.Of = d.Call, d.Tool, d.Attempt, RefName(d.Of)
		result(d.Result, &d.LatencyMS)
		switch {
		case d.Repeated:
			v.Status, v.Cost, v.Unmeasured, v.LatencyMS, v.Label = "repeated", nil, false, nil, "not done again, outcome of "+v.Of
		case d.Simulated:
			v.Status, v.Label = "simulated", "simulated, not done"
		case d.Completion != nil:
			v.By = d.Completion.By
			v.Label = "completed" + With(" by ", v.By)
		}
	case events.ToolExecutionError:
		call, v.Tool, v.Attempt, v.Tone = d.Call, d.Tool, d.Attempt, ToneBad
		result(d.Result, &d.LatencyMS)
		v.Status, v.Label, v.Text = "error", "failed", Either(": ", d.Error.Kind, d.Error.Message)
	case events.ToolExecutionBlocked:
		call, v.Tool, v.Data, v.Tone, v.Of = d.Call, d.Tool, d.Arguments, ToneBad, RefName(d.Of)
		v.Status, v.Label, v.Text = "blocked", Either(": ", "blocked", string(d.Reason), d.Detail), Said(d.Result)
	case events.ToolExecutionInDoubt:
		call, v.Kind, v.Tool, v.Attempt, v.Tone = d.Call, ToldDoubt, d.Tool, d.Attempt, ToneBad
		v.Status, v.Label, v.Text = d.Cause, "in doubt after "+strings.ReplaceAll(d.Cause, "_", " "), d.Evidence
		if v.Text == "" {
			v.Text = "nobody can know whether it took effect"
		}
	case events.EffectResolved:
		call, v.Tool, v.By = d.Call, d.Tool, d.By
		result(d.Result, nil)
		v.Status, v.Label = string(d.State), fmt.Sprintf("settled as %s by %s", strings.ReplaceAll(string(d.State), "_", " "), d.By)
		if d.Forced {
			v.Label += " (forced)"
		}
		v.Label = Either(", ", v.Label, d.Note)
	}
	for _, c := range rows.Calls {
		if v.Late = c.Detail == "late" && !c.Terminal; v.Late {
			v.Label = Either(", ", v.Label, "late: the call had ended otherwise")
		}
	}
	v.Turn, v.Call = call.Turn, call.String()
	if call.Turn == t.Cur.Turn {
		t.Cur.Seen[call.Index] = true
	}
}

// outside is what persons, clocks and other runs did.
func (t *Teller) outside(v *ToldView, p events.Payload) {
	v.Kind, v.Text, v.Label = ToldNote, Summary(p), strings.ReplaceAll(string(v.Type), "_", " ")
	switch d := p.(type) {
	case events.ApprovalRequested:
		v.Kind, v.Label, v.Call, v.Tool, v.Until, v.Status, v.Tone = ToldApproval, "approval asked for", d.Call.String(), d.Tool, d.Expires, "requested", ToneWarn
		v.Text = fmt.Sprintf("%s %s%s", d.Call, d.Tool, With(", because of the ", d.Why))
	case events.ApprovalDecided:
		v.Kind, v.Label, v.By, v.Status, v.Text = ToldApproval, d.Decision+" by "+d.By, d.By, d.Decision, d.Reason
		if d.Decision == "denied" {
			v.Tone = ToneBad
		}
	case events.BudgetExceeded:
		v.Label, v.Tone = "budget", ToneBad
	case events.SignalReceived:
		v.Label, v.By, v.Data = "signal", d.From, d.Data
		v.Text = Either(" ", d.Name, With("from ", d.From))
	case events.ChildStarted:
		v.Kind, v.Label, v.Run, v.Call, v.Status = ToldChild, "child run", d.Child, d.Call.String(), "started"
		v.Text = fmt.Sprintf("%s works for %s", d.Child, d.Call)
	case events.ChildFinished:
		v.Kind, v.Label, v.Run, v.Status, v.Data = ToldChild, "child run", d.Child, string(d.StoppedBy), d.Output
		v.Text = Either(", ", fmt.Sprintf("%s ended: %s", d.Child, d.StoppedBy), d.Error)
	case events.OperatorActed:
		v.Label, v.By, v.Tone = "operator", d.By, ToneWarn
	case events.TranscriptCompacted:
		v.Status, v.Tone = d.By, ToneWarn
	case events.ArtifactValidationFinished, events.ArtifactRevisionStarted, events.ArtifactFinished, events.ArtifactFailed:
		v.Kind = ToldArtifact
		artifactTold(v, p)
	}
}

// artifactTold says what became of an artifact: in one line, and below it what was
// found or asked.
func artifactTold(v *ToldView, p events.Payload) {
	below := func(is []events.ArtifactIssue) string {
		var b strings.Builder
		for _, i := range is {
			b.WriteString("\n- " + Either(": ", i.Path, i.Message))
		}
		return b.String()
	}
	v.Text = ""
	switch d := p.(type) {
	case events.ArtifactValidationFinished:
		v.Label = fmt.Sprintf("artifact %s, revision %d, ", d.Artifact, d.Revision)
		switch {
		case d.Error != nil:
			v.Status, v.Tone = "none", ToneBad
			v.Label += "has no verdict"
			v.Text = Either(": ", d.Error.Kind, d.Error.Message)
		case d.OK:
			v.Status = "accepted"
			v.Label += "is accepted"
		default:
			v.Status, v.Tone = "refused", ToneWarn
			v.Label += "is refused" + With(" by ", d.Validator)
			v.Text = below(d.Issues)
		}
	case events.ArtifactRevisionStarted:
		v.Status, v.Label, v.Text = "revised", fmt.Sprintf("asked for revision %d of %s", d.Revision, d.Artifact), "\n"+d.Input
	case events.ArtifactFinished:
		v.Status, v.Label, v.Text = "finished", "artifact "+d.Name, fmt.Sprintf("revision %d, %d bytes, content %s", d.Revision, d.Bytes, ShortKey(d.Content))
	case events.ArtifactFailed:
		v.Status, v.Label, v.Text, v.Tone = "failed", fmt.Sprintf("artifact %s given up after %s", d.Name, Plural(int64(d.Revisions), "revision")), below(d.Issues), ToneBad
	}
}
