package main

import (
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
)

// summary is an event in one line, for people.
func summary(p events.Payload) string {
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
		return either(", ", "agent "+d.Agent, "key "+d.ClientKey, with("for ", d.Owner), askedWords(d.Prompt), "input "+string(d.Input))
	case events.RunStarted:
		s := fmt.Sprintf("worker %s, model %s, loop %s v%d, %s", d.Worker, d.Model, d.Loop, d.LoopVersion, plural(int64(len(d.Tools)), "tool"))
		return either(", ", s, with("prompt of ", layerNames(d.PromptLayers)))
	case events.RunResumed:
		s := fmt.Sprintf("worker %s, epoch %d, goes on after seq %d", d.Worker, d.Epoch, d.BaseSeq)
		if d.SetAside > 0 {
			s += fmt.Sprintf(", %s set aside", plural(int64(d.SetAside), "event"))
		}
		return s
	case events.RunParked:
		s := either(": ", string(d.Reason), d.Detail)
		if !d.Until.IsZero() {
			s += ", until " + stamp(d.Until)
		}
		return s
	case events.RunUnparked:
		return either(": ", string(d.Reason), d.Detail)
	case events.RunFinished:
		return either(", ", string(d.StoppedBy), d.DeclinedBecause, plural(int64(d.Turns), "turn"), with("output ", string(d.Output)))
	case events.RunFailed:
		return either(": ", string(d.StoppedBy), d.Error.Kind, d.Error.Message)
	case events.RunCancelled:
		return either(": ", with("by ", d.By), d.Reason)
	default:
		return ""
	}
}

// layerNames are the layers that are in a prompt.
func layerNames(ls []events.PromptLayer) string {
	var in []string
	for _, l := range ls {
		if l.Off == "" {
			in = append(in, l.ID)
		}
	}
	return strings.Join(in, " + ")
}

func with(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func modelSummary(p events.Payload) string {
	switch d := p.(type) {
	case events.ModelCallStarted:
		return either(": ", purpose(d.Purpose), either(", ", d.Model, with("endpoint ", d.Endpoint), fmt.Sprintf("attempt %d, %s", d.Attempt, plural(int64(d.Messages), "message"))))
	case events.ModelCallFinished:
		tokens := "usage not sent"
		if !d.Usage.Missing {
			tokens = fmt.Sprintf("%d in + %d out tokens", d.Usage.Input+d.Usage.CacheRead+d.Usage.CacheWrite, d.Usage.Output)
		}
		s := fmt.Sprintf("%s, %s, %s", d.StopReason, tokens, amount(d.Cost, "unpriced"))
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
		return either(": ", purpose(d.Purpose), either(", ", s, d.Text))
	case events.ModelCallError:
		s := fmt.Sprintf("attempt %d, %s: %s", d.Attempt, d.Error.Kind, d.Error.Message)
		switch {
		case d.NextEndpoint != "":
			s += ", endpoint " + d.NextEndpoint + " is asked next"
		case d.Retryable:
			s += ", will be tried again"
		}
		return either(": ", purpose(d.Purpose), s)
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
			s += " repeated, outcome of " + refName(d.Of)
		}
		return s + ": " + said(d.Result)
	case events.ToolExecutionError:
		return fmt.Sprintf("%s: %s: %s", name(d.Call, d.Tool), d.Error.Kind, d.Error.Message)
	case events.ToolExecutionBlocked:
		return either(": ", name(d.Call, d.Tool), string(d.Reason), d.Detail, d.Rule)
	case events.ToolExecutionInDoubt:
		return either(": ", name(d.Call, d.Tool), d.Cause, d.Evidence)
	case events.EffectResolved:
		s := fmt.Sprintf("%s %s, by %s", name(d.Call, d.Tool), d.State, d.By)
		if d.Forced {
			s += " (forced)"
		}
		return either(": ", s, d.Note)
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
	return either(" ", s+", "+string(d.Op), d.Name)
}

func artifactSummary(p events.Payload) string {
	issues := func(is []events.ArtifactIssue) string {
		if len(is) == 0 {
			return ""
		}
		return plural(int64(len(is)), "issue") + ", first: " + either(": ", is[0].Path, is[0].Message)
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
		return either(", ", d.Name+" after "+plural(int64(d.Revisions), "revision"), issues(d.Issues))
	default:
		return ""
	}
}

func outsideSummary(p events.Payload) string {
	switch d := p.(type) {
	case events.ApprovalRequested:
		return either(": ", fmt.Sprintf("%s %s, approval %s, expires %s", d.Call, d.Tool, d.Approval, stamp(d.Expires)), d.Rule)
	case events.ApprovalDecided:
		return either(": ", fmt.Sprintf("%s by %s", d.Decision, d.By), d.Reason)
	case events.BudgetExceeded:
		return fmt.Sprintf("%s: limit %s, wanted %s", d.Budget, d.Limit, d.Wanted)
	case events.SignalReceived:
		return either(" ", d.Name, string(d.Data))
	case events.TimerFired:
		return "due " + stamp(d.Due)
	case events.ChildStarted:
		return fmt.Sprintf("run %s for %s", d.Child, d.Call)
	case events.ChildFinished:
		return either(", ", fmt.Sprintf("run %s", d.Child), string(d.StoppedBy), string(d.Output))
	case events.OperatorActed:
		return either(": ", fmt.Sprintf("%s by %s", d.Verb, d.By), d.Detail)
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
	what := plural(int64(d.Span.To-d.Span.From), "message")
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
		how = either(": ", "left out", d.Failed)
	}
	return either(", ", what+" "+how, why, d.Text)
}
