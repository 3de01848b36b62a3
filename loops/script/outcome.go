package script

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// Status says how a call ended.
type Status string

// Statuses.
const (
	Completed Status = "completed"
	Failed    Status = "failed"  // it ran and failed; a destructive one took no effect
	Blocked   Status = "blocked" // it was not run
	// Unknown: nobody can know whether it took effect, and nobody waits for news:
	// its tool says that the run may go on, or a person has given it up.
	Unknown Status = "unknown"
)

// Outcome is what came of a call. A call that is in doubt has none until that is
// settled: the run waits.
type Outcome struct {
	Call   events.CallID
	Tool   string
	Status Status
	// Text is the output of a completed call, else why there is none.
	Text string
	// Kind is that of the error of a failed call, Reason and Detail those of a blocked one.
	Kind   string
	Reason events.BlockedReason
	Detail string
	// Repeated: it was done before, by a call with the same identity, and was not done again.
	Repeated bool
	// Simulated: it was not executed, since the run is a fork.
	Simulated bool
	// By is who completed it from outside, or settled it after it was in doubt.
	By     string
	Result events.ToolResult
}

// OK reports whether the call completed.
func (o Outcome) OK() bool { return o.Status == Completed }

// Err returns nil for a completed call, else an [*OutcomeError].
func (o Outcome) Err() error {
	if o.OK() {
		return nil
	}
	return &OutcomeError{o}
}

// Decode reads the output of a completed call as JSON into v.
func (o Outcome) Decode(v any) error {
	if err := o.Err(); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(o.Text), v); err != nil {
		return fmt.Errorf("output of %s (%s): %w", o.Tool, o.Call, err)
	}
	return nil
}

// OutcomeError is a call that did not complete. Code that returns it fails the run
// with the kind tool_failed, tool_blocked or tool_unknown.
type OutcomeError struct{ Outcome Outcome }

func (e *OutcomeError) Error() string {
	o := e.Outcome
	text := fmt.Sprintf("%s (%s) %s", o.Tool, o.Call, o.Status)
	for _, s := range []string{string(o.Reason), o.Detail, o.Text} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

func (e *OutcomeError) kind() string { return "tool_" + string(e.Outcome.Status) }

func outcomesOf(p *loops.Planned) []Outcome {
	out := make([]Outcome, len(p.Ends))
	for i, end := range p.Ends {
		o := &out[i]
		o.Call, o.Tool = events.CallID{Turn: p.Turn, Index: i}, p.Calls[i].Name
		o.fill(end)
	}
	return out
}

func (o *Outcome) fill(end events.Payload) {
	switch e := end.(type) {
	case events.ToolExecutionFinished:
		o.Repeated, o.Simulated, o.Result = e.Repeated, e.Simulated, e.Result
		o.Status = Completed
		if e.Result.Status == "failed" {
			o.Status = Failed
		}
		if e.Completion != nil {
			o.By = e.Completion.By
		}
	case events.ToolExecutionError:
		o.Repeated, o.Status, o.Kind, o.Result = e.Repeated, Failed, e.Error.Kind, e.Result
		if o.Result.Error == "" {
			o.Result.Error = e.Error.Message
		}
		if e.Completion != nil {
			o.By = e.Completion.By
		}
	case events.ToolExecutionBlocked:
		o.Status, o.Reason, o.Detail, o.Result = Blocked, e.Reason, e.Detail, e.Result
		if e.Detail == "abandoned" {
			o.Status = Unknown
		}
	case events.EffectResolved:
		o.By, o.Result = e.By, e.Result
		switch e.State {
		case events.EffectApplied:
			o.Status = Completed
		case events.EffectNotApplied:
			o.Status, o.Kind = Failed, "not_applied"
		default:
			o.Status = Unknown
		}
	default: // in doubt, and the run may go on
		o.Status = Unknown
		o.Result.Error = "nobody can know whether it took effect"
	}
	if o.Text = o.Result.Output; o.Status != Completed && o.Result.Error != "" {
		o.Text = o.Result.Error
	}
}

// Answer is what the model said.
type Answer struct {
	Text string
	// Control is set if a tool ended it, "finish" or "decline": Text is what that said.
	Control     string
	StopReason  string
	ServedModel string
	Usage       events.Usage // of the last call alone
	Turn        int
}

// Decode reads the answer as JSON into v.
func (a Answer) Decode(v any) error {
	if err := json.Unmarshal([]byte(a.Text), v); err != nil {
		return fmt.Errorf("answer of turn %d: %w", a.Turn, err)
	}
	return nil
}

// Kinds of a [ModelError] of an answer; any other is that of the last model call.
const (
	refusal = "refusal"
	cut     = "answer_cut"
)

// ModelError says why there is no answer: the model refused ("refusal") or was cut
// off ("answer_cut"), or the call failed for good. Code that returns it ends the
// run: as declined if the model refused, else failed with this kind.
type ModelError struct{ Kind, Message string }

func (e *ModelError) Error() string { return "ask the model: " + e.Kind + ": " + e.Message }

func answerOf(p *loops.Planned) (Answer, error) {
	if p.Failed != nil {
		return Answer{}, &ModelError{p.Failed.Kind, p.Failed.Message}
	}
	f := p.Answer
	a := Answer{Text: f.Text, StopReason: f.StopReason, ServedModel: f.ServedModel, Usage: f.Usage, Turn: f.Turn}
	if p.Control != nil {
		a.Text, a.Control = p.Control.Output, p.Control.Control
		return a, nil
	}
	stop, unusable := loops.Unusable(f)
	switch {
	case !unusable:
		return a, nil
	case stop.Err != nil:
		return a, &ModelError{cut, stop.Err.Message}
	}
	return a, &ModelError{refusal, stop.DeclinedBecause}
}

// Version is a version of an artifact that was stored and judged.
type Version struct {
	Name     string
	Revision int // from 0
	OK       bool
	// Content is the hash of it as it was stored; zero if it could not be.
	Content events.Hash
	// Issues say what is wrong with it, or are notes.
	Issues []events.ArtifactIssue
}

// Err says why the version was refused; nil if it was not.
func (v Version) Err() error {
	if v.OK {
		return nil
	}
	text := fmt.Sprintf("artifact %s, revision %d, was refused", v.Name, v.Revision)
	for _, i := range v.Issues {
		text += fmt.Sprintf("; %s: %s", i.Path, i.Message)
	}
	return errors.New(text)
}

func versionOf(p *loops.Planned) (Version, error) {
	d := p.Verdict
	v := Version{Name: p.Name, Revision: d.Revision, OK: d.OK, Content: d.Content, Issues: d.Issues}
	if d.Error != nil {
		return v, &Failure{d.Error.Kind, d.Error.Message}
	}
	return v, nil
}
