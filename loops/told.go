package loops

import (
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// This file is the one place that decides what a model reads about a call.
// Every text says first whether the call ran, since that is what the model
// must not get wrong; the tool's own words follow. The wording is part of the
// transcript: the same history gives the same bytes.

// toldFinished is a result, new or handed back.
func toldFinished(p events.ToolExecutionFinished) model.Result {
	r := toldResult(p.Result)
	if p.Repeated {
		r.Repeated = true
		r.Text = repeatedPrefix(p) + r.Text
	}
	return r
}

func repeatedPrefix(p events.ToolExecutionFinished) string {
	if p.Redacted {
		return "(earlier result, not run again; secrets are redacted) "
	}
	return "(earlier result, not run again) "
}

// toldResult is what a tool gave, in its own words.
func toldResult(t events.ToolResult) model.Result {
	if t.Status == "failed" {
		return model.Result{Failed: true, Text: "failed: " + failure(t, "the tool gave no reason")}
	}
	text := t.Output
	if t.Truncated != nil {
		text += fmt.Sprintf("\n(cut: the first %d of %d bytes)", t.Truncated.Kept, t.Truncated.Of)
	}
	return model.Result{Text: text}
}

// failure is the reason a failed result gives, with its output if there is one.
func failure(t events.ToolResult, otherwise string) string {
	var parts []string
	for _, s := range []string{t.Error, t.Output} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return otherwise
	}
	return strings.Join(parts, "\n")
}

// toldError is a call that certainly failed.
func toldError(p events.ToolExecutionError) model.Result {
	prefix := "failed: "
	if p.Ref != nil {
		prefix = "failed, took no effect: "
	}
	return model.Result{Failed: true, Text: prefix + failure(p.Result, p.Error.Message)}
}

// toldBlocked is a call that was not run.
func toldBlocked(p events.ToolExecutionBlocked) model.Result {
	reason := string(p.Reason)
	if p.Detail != "" {
		reason += ", " + p.Detail
	}
	why := failure(p.Result, blockedBecause(p))
	if p.Detail == "abandoned" {
		return model.Result{Failed: true, Text: "unknown whether an earlier call took effect, given up by a person; not run, do not retry it: " + why}
	}
	return model.Result{Failed: true, Text: "not run (" + reason + "): " + why}
}

func blockedBecause(p events.ToolExecutionBlocked) string {
	switch p.Reason {
	case events.BlockedUnknownTool:
		return fmt.Sprintf("there is no tool %q", p.Tool)
	case events.BlockedToolDenied:
		return fmt.Sprintf("the tool %q may not be used here", p.Tool)
	case events.BlockedInvalidArguments:
		return "the arguments do not fit the tool's schema"
	case events.BlockedPermissionDenied:
		return "permission was denied"
	case events.BlockedValidationFailed:
		return "a validator refused the call"
	}
	return "no reason given"
}

// toldUnknown is a call that nobody can know about while the run goes on.
func toldUnknown() model.Result {
	return model.Result{Failed: true, Text: "unknown whether it took effect; do not retry it and do not rely on it either way"}
}

// toldNotRun is a call that the loop never had performed.
func toldNotRun(tool string) model.Result {
	return model.Result{Failed: true, Text: fmt.Sprintf("not run: calls of %q are not performed in this turn", tool)}
}

// toldResolved is an effect that was in doubt and is settled.
func toldResolved(p events.EffectResolved) model.Result {
	switch p.State {
	case events.EffectApplied:
		if p.Result.Status == "failed" || p.Result.Output == "" {
			// Evidence that reads like a failure must not make the model try again.
			return model.Result{Text: "it took effect; of its result is known: " + failure(p.Result, "nothing")}
		}
		return toldResult(p.Result)
	case events.EffectNotApplied:
		return model.Result{Failed: true, Text: "failed, took no effect: " + failure(p.Result, "found out after an interruption")}
	default:
		return model.Result{Failed: true, Text: "given up as unknown; nobody knows whether it took effect, do not retry it"}
	}
}

// toldNote says later what became of a call that was told as unknown.
func toldNote(id events.CallID, r model.Result) string {
	state := "it took effect, with this result"
	if r.Failed {
		state = "it ended like this"
	}
	return fmt.Sprintf("Note about the call %s, reported as unknown before: %s: %s", id, state, r.Text)
}
