package telling

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
)

// Summary is an event in one line, for people.
func Summary(p events.Payload) string {
	switch d := p.(type) {
	case events.TurnStarted:
		return fmt.Sprintf("turn %d", d.Turn)
	case events.StepPlanned:
		return stepSummary(d)
	case events.ModelCallStarted, events.ModelCallFinished, events.ModelCallError:
		return modelSummary(p)
	case events.ToolExecutionStarted, events.ToolExecutionProgress, events.ToolExecutionFinished, events.ToolExecutionError,
		events.ToolExecutionBlocked, events.ToolExecutionInDoubt, events.EffectResolved:
		return toolSummary(p)
	case events.ArtifactValidationStarted, events.ArtifactValidationFinished, events.ArtifactRevisionStarted,
		events.ArtifactFinished, events.ArtifactFailed:
		return artifactSummary(p)
	case events.TranscriptCompacted:
		return compactionSummary(d)
	case events.ApprovalRequested, events.ApprovalDecided, events.BudgetExceeded, events.SignalReceived, events.TimerFired,
		events.ChildStarted, events.ChildFinished, events.OperatorActed:
		return outsideSummary(p)
	default:
		return runSummary(p)
	}
}

func runSummary(p events.Payload) string {
	switch d := p.(type) {
	case events.RunQueued:
		return Either(", ", "agent "+d.Agent, "key "+d.ClientKey, With("for ", d.Owner), AskedWords(d.Prompt), "input "+string(d.Input))
	case events.RunStarted:
		s := fmt.Sprintf("worker %s, model %s, loop %s v%d, %s", d.Worker, d.Model, d.Loop, d.LoopVersion, Plural(int64(len(d.Tools)), "tool"))
		return Either(", ", s, With("prompt of ", LayerNames(d.PromptLayers)))
	case events.RunResumed:
		s := fmt.Sprintf("worker %s, epoch %d, goes on after seq %d", d.Worker, d.Epoch, d.BaseSeq)
		if d.SetAside > 0 {
			s += fmt.Sprintf(", %s set aside", Plural(int64(d.SetAside), "event"))
		}
		return s
	case events.RunParked:
		s := Either(": ", string(d.Reason), d.Detail)
		if !d.Until.IsZero() {
			s += ", until " + Stamp(d.Until)
		}
		return s
	case events.RunUnparked:
		return Either(": ", string(d.Reason), d.Detail)
	case events.RunFinished:
		return Either(", ", string(d.StoppedBy), d.DeclinedBecause, Plural(int64(d.Turns), "turn"), With("output ", string(d.Output)))
	case events.RunFailed:
		return Either(": ", string(d.StoppedBy), d.Error.Kind, d.Error.Message)
	case events.RunCancelled:
		return Either(": ", With("by ", d.By), d.Reason)
	default:
		return ""
	}
}

// LayerNames are the layers that are in a prompt.
func LayerNames(ls []events.PromptLayer) string {
	var in []string
	for _, l := range ls {
		if l.Off == "" {
			in = append(in, l.ID)
		}
	}
	return strings.Join(in, " + ")
}

func modelSummary(p events.Payload) string {
	switch d := p.(type) {
	case events.ModelCallStarted:
		return Either(": ", purpose(d.Purpose), Either(", ", d.Model, With("endpoint ", d.Endpoint), fmt.Sprintf("attempt %d, %s", d.Attempt, Plural(int64(d.Messages), "message"))))
	case events.ModelCallFinished:
		tokens := "usage not sent"
		if !d.Usage.Missing {
			tokens = fmt.Sprintf("%d in + %d out tokens", d.Usage.Input+d.Usage.CacheRead+d.Usage.CacheWrite, d.Usage.Output)
		}
		s := fmt.Sprintf("%s, %s, %s", d.StopReason, tokens, Amount(d.Cost, "unpriced"))
		if g := d.Degraded; g != nil {
			s += fmt.Sprintf(", by %s instead of %s (%s)", g.To, g.From, g.Reason)
		}
		if len(d.ToolCalls) > 0 {
			names := make([]string, len(d.ToolCalls))
			for i, c := range d.ToolCalls {
				names[i] = c.Name
			}
			s += ", asks for " + strings.Join(names, " ")
		}
		return Either(": ", purpose(d.Purpose), Either(", ", s, d.Text))
	case events.ModelCallError:
		s := fmt.Sprintf("attempt %d, %s: %s", d.Attempt, d.Error.Kind, d.Error.Message)
		switch {
		case d.NextEndpoint != "":
			s += ", endpoint " + d.NextEndpoint + " is asked next"
		case d.Retryable:
			s += ", will be tried again"
		}
		return Either(": ", purpose(d.Purpose), s)
	default:
		return ""
	}
}

func toolSummary(p events.Payload) string {
	name := func(c events.CallID, tool string) string { return c.String() + " " + tool }
	switch d := p.(type) {
	case events.ToolExecutionStarted:
		return fmt.Sprintf("%s (%s), attempt %d, %s", name(d.Call, d.Tool), d.Effect, d.Attempt, d.Arguments)
	case events.ToolExecutionProgress:
		return name(d.Call, d.Tool) + ": " + d.Progress
	case events.ToolExecutionFinished:
		s := name(d.Call, d.Tool)
		if d.Repeated {
			s += " repeated, outcome of " + RefName(d.Of)
		}
		return s + ": " + Said(d.Result)
	case events.ToolExecutionError:
		s := name(d.Call, d.Tool)
		if d.Repeated {
			s += " repeated, outcome of " + RefName(d.Of)
		}
		return fmt.Sprintf("%s: %s: %s", s, d.Error.Kind, d.Error.Message)
	case events.ToolExecutionBlocked:
		return Either(": ", name(d.Call, d.Tool), string(d.Reason), d.Detail, d.Rule)
	case events.ToolExecutionInDoubt:
		return Either(": ", name(d.Call, d.Tool), d.Cause, d.Evidence)
	case events.EffectResolved:
		s := fmt.Sprintf("%s %s, by %s", name(d.Call, d.Tool), d.State, d.By)
		if d.Forced {
			s += " (forced)"
		}
		return Either(": ", s, d.Note)
	default:
		return ""
	}
}

// stepSummary says what the code of a script asks for.
func stepSummary(d events.StepPlanned) string {
	s := fmt.Sprintf("step %d", d.Step)
	switch d.Op {
	case events.OpModel:
		return s + ", asks the model: " + d.Text
	case events.OpArtifact:
		return fmt.Sprintf("%s, artifact %s of %d bytes", s, d.Name, len(d.Text))
	case events.OpCalls:
		names := make([]string, len(d.Calls))
		for i, c := range d.Calls {
			names[i] = c.Name
		}
		return s + ", calls " + strings.Join(names, " ")
	}
	return Either(" ", s+", "+string(d.Op), d.Name)
}

func artifactSummary(p events.Payload) string {
	issues := func(is []events.ArtifactIssue) string {
		if len(is) == 0 {
			return ""
		}
		return Plural(int64(len(is)), "issue") + ", first: " + Either(": ", is[0].Path, is[0].Message)
	}
	switch d := p.(type) {
	case events.ArtifactValidationStarted:
		return fmt.Sprintf("%s, revision %d: parser %s, %s", d.Artifact, d.Revision, d.Parser, strings.Join(d.Validators, ", "))
	case events.ArtifactValidationFinished:
		what := fmt.Sprintf("%s, revision %d", d.Artifact, d.Revision)
		switch {
		case d.Error != nil:
			return what + ": no verdict: " + d.Error.Kind + ": " + d.Error.Message
		case d.OK:
			return what + ": accepted"
		case d.Validator == "":
			return what + ": refused: " + issues(d.Issues)
		}
		return what + ": refused by " + d.Validator + ": " + issues(d.Issues)
	case events.ArtifactRevisionStarted:
		return fmt.Sprintf("%s, revision %d: %s", d.Artifact, d.Revision, d.Input)
	case events.ArtifactFinished:
		return fmt.Sprintf("%s, revision %d, %d bytes, content %s", d.Name, d.Revision, d.Bytes, d.Content)
	case events.ArtifactFailed:
		return Either(", ", d.Name+" after "+Plural(int64(d.Revisions), "revision"), issues(d.Issues))
	default:
		return ""
	}
}

func outsideSummary(p events.Payload) string {
	switch d := p.(type) {
	case events.ApprovalRequested:
		return Either(": ", fmt.Sprintf("%s %s, approval %s, expires %s", d.Call, d.Tool, d.Approval, Stamp(d.Expires)), d.Rule)
	case events.ApprovalDecided:
		return Either(": ", fmt.Sprintf("%s by %s", d.Decision, d.By), d.Reason)
	case events.BudgetExceeded:
		return fmt.Sprintf("%s: limit %s, wanted %s", d.Budget, d.Limit, d.Wanted)
	case events.SignalReceived:
		return Either(" ", d.Name, string(d.Data))
	case events.TimerFired:
		return "due " + Stamp(d.Due)
	case events.ChildStarted:
		return fmt.Sprintf("run %s for %s", d.Child, d.Call)
	case events.ChildFinished:
		return Either(", ", fmt.Sprintf("run %s", d.Child), string(d.StoppedBy), string(d.Output))
	case events.OperatorActed:
		return Either(": ", fmt.Sprintf("%s by %s", d.Verb, d.By), d.Detail)
	default:
		return ""
	}
}

// purpose marks a model call that is no turn's answer.
func purpose(p string) string {
	if p == events.PurposeCompaction {
		return "to compact the transcript"
	}
	return p
}

func compactionSummary(d events.TranscriptCompacted) string {
	what := Plural(int64(d.Span.To-d.Span.From), "message")
	switch {
	case d.Span.FirstTurn == 0:
	case d.Span.FirstTurn == d.Span.LastTurn:
		what += fmt.Sprintf(" of turn %d", d.Span.FirstTurn)
	default:
		what += fmt.Sprintf(" of turns %d to %d", d.Span.FirstTurn, d.Span.LastTurn)
	}
	why := "the window is filling up"
	if d.Because == "refused" {
		why = "the request was too long"
	}
	how := "now a summary"
	switch d.By {
	case events.CompactedByObservations:
		how = "now observations"
	case events.CompactedByCut:
		how = Either(": ", "left out", d.Failed)
	}
	return Either(", ", what+" "+how, why, d.Text)
}

// AskedWords are what a submission says about its run's prompt; empty for nothing.
func AskedWords(raw json.RawMessage) string {
	var in struct {
		Text     string   `json:"text"`
		NoLayers bool     `json:"no_layers"`
		Skills   []string `json:"skills"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil {
		return string(raw)
	}
	layers := ""
	if in.NoLayers {
		layers = "no configured layers"
	}
	text := strings.Join(strings.Fields(in.Text), " ")
	return Either(", ", layers, With("skills ", strings.Join(in.Skills, " ")), With("prompt ", text))
}
