package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// effectView is an effect with all its attempts.
type effectView struct {
	OpKey             events.Hash        `json:"op_key"`
	Generation        int                `json:"generation"`
	State             events.EffectState `json:"state"`
	Tool              string             `json:"tool"`
	Tenant            string             `json:"tenant"`
	Scope             ledger.Scope       `json:"scope"`
	ScopeKey          string             `json:"scope_key"`
	Recovery          string             `json:"recovery"`
	RecoveryTTL       string             `json:"recovery_ttl,omitempty"`
	Identity          json.RawMessage    `json:"identity"`
	Arguments         json.RawMessage    `json:"arguments"`
	Run               events.RunID       `json:"run"` // of the latest attempt
	Call              string             `json:"call"`
	CreatedAt         time.Time          `json:"created_at"`
	InDoubtSince      time.Time          `json:"in_doubt_since,omitzero"`
	Cause             string             `json:"cause,omitempty"`
	Evidence          string             `json:"evidence,omitempty"`
	Quiescent         *bool              `json:"quiescent,omitempty"` // of what is undecided: no attempt can still act
	QuiescentAt       time.Time          `json:"quiescent_at,omitzero"`
	SettledBy         string             `json:"settled_by,omitempty"`
	SettledAt         time.Time          `json:"settled_at,omitzero"`
	Forced            bool               `json:"forced,omitempty"`
	Contradicted      bool               `json:"contradicted,omitempty"`
	PossibleDuplicate bool               `json:"possible_duplicate,omitempty"`
	Outcome           *events.ToolResult `json:"outcome,omitempty"`
	Attempts          []attemptView      `json:"attempts"`
	Waiting           []events.RunID     `json:"waiting"`
}

type attemptView struct {
	Attempt   int                `json:"attempt"`
	Run       events.RunID       `json:"run"`
	Call      string             `json:"call"`
	Epoch     uint64             `json:"epoch"`
	StartedAt time.Time          `json:"started_at"`
	Deadline  time.Time          `json:"deadline"`
	EndedAt   time.Time          `json:"ended_at,omitzero"`
	Outcome   string             `json:"outcome"` // none, applied, not_applied or unclear
	Error     string             `json:"error,omitempty"`
	Result    *events.ToolResult `json:"result,omitempty"`
}

// effectView gathers what is known of an effect.
func (a *app) effectView(ctx context.Context, st ledger.Store, e ledger.Effect) (effectView, error) {
	v := effectView{
		OpKey: e.OpKey, Generation: e.Generation, State: e.State, Tool: e.Tool, Tenant: e.Tenant, Scope: e.Scope, ScopeKey: e.ScopeKey,
		Recovery: e.Recovery.Kind, Identity: e.Identity, Arguments: e.Arguments, Run: e.Run, Call: e.Call.String(), CreatedAt: e.CreatedAt,
		Evidence: e.Evidence, SettledBy: e.SettledBy, SettledAt: e.SettledAt, Forced: e.Forced, Contradicted: e.Contradicted,
		PossibleDuplicate: e.PossibleDuplicate, Outcome: e.Outcome, Waiting: []events.RunID{},
	}
	if e.Recovery.TTL > 0 {
		v.RecoveryTTL = e.Recovery.TTL.String()
	}
	as, err := st.Attempts(ctx, e.OpKey)
	if err != nil {
		return v, err
	}
	for _, t := range as {
		v.Attempts = append(v.Attempts, newAttemptView(t))
	}
	if e.State == events.EffectInDoubt || e.State == events.EffectStarted {
		quiet := e.QuiescentIn <= 0
		v.Quiescent = &quiet
		if !e.Deadline.IsZero() {
			v.QuiescentAt = e.Deadline.Add(a.opts.Grace)
		}
	}
	if e.State == events.EffectInDoubt {
		if err := v.doubt(ctx, st, as); err != nil {
			return v, err
		}
	}
	waiting, err := st.Waiting(ctx, e.OpKey)
	for _, r := range waiting {
		v.Waiting = append(v.Waiting, r.ID)
	}
	return v, err
}

func newAttemptView(t ledger.Attempt) attemptView {
	outcome := string(t.Outcome)
	if outcome == "" {
		outcome = "none"
	}
	return attemptView{
		Attempt: t.Number, Run: t.Run, Call: t.Call.String(), Epoch: t.Epoch, StartedAt: t.StartedAt, Deadline: t.Deadline,
		EndedAt: t.EndedAt, Outcome: outcome, Error: t.Error, Result: t.Result,
	}
}

// doubt finds out since when and why: in the records of the run, or in its
// facts while nobody has put them into the history.
func (v *effectView) doubt(ctx context.Context, st ledger.Store, as []ledger.Attempt) error {
	rs, err := callRecords(ctx, st, v.Run, func(r ledger.CallRecord) bool { return r.Status == "in_doubt" && r.OpKey == v.OpKey })
	if err != nil {
		return err
	}
	for _, r := range rs {
		v.InDoubtSince, v.Cause, v.Evidence = r.At, r.Reason, r.Detail
	}
	fs, err := st.Pending(ctx, v.Run)
	if err != nil {
		return err
	}
	for _, f := range fs {
		p, err := events.DecodePayload(f.Type, f.Version, f.Data)
		if d, ok := p.(events.ToolExecutionInDoubt); err == nil && ok && d.Ref.OpKey == v.OpKey {
			v.InDoubtSince, v.Cause, v.Evidence = d.At, d.Cause, d.Evidence
		}
	}
	if last := as[len(as)-1]; v.InDoubtSince.IsZero() {
		// The record is behind: the attempt's own end is the best there is.
		if v.InDoubtSince = last.EndedAt; v.InDoubtSince.IsZero() {
			v.InDoubtSince = last.StartedAt
		}
	}
	return nil
}

// causeWords say why nobody can know; the keys are stored.
func causeWords(cause string) string {
	words := map[string]string{
		"takeover":      "the worker that ran it went away before it said how it ended",
		"timeout":       "the tool gave no answer in time",
		"panic":         "the tool crashed",
		"unclear_error": "the tool failed in a way that does not say whether it took effect",
		"lease_lost":    "its worker lost the run while the tool was running",
		"restored":      "the database was restored to a moment before it began, and the journal does not say how it ended",
		"cancelled":     "the run was cancelled while the tool was running",
		"inherited":     "an earlier attempt of this work began it and ended without knowing",
	}[cause]
	if words == "" {
		return either(" ", "cause", cause)
	}
	return words
}

// resolvable says from when an effect in doubt may be resolved; the star is explained below the table.
func (a *app) resolvable(v effectView) string {
	if v.Quiescent != nil && !*v.Quiescent {
		return "in " + span(v.QuiescentAt.Sub(a.now())) + " *"
	}
	return "now"
}

// resolveCommands are what a person can type about an effect in doubt.
func (a *app) resolveCommands(key events.Hash) []string {
	var out []string
	for _, verb := range []string{"--applied", "--not-applied", "--abandon"} {
		out = append(out, a.command("resolve", shortKey(key), verb, "--note", "TEXT"))
	}
	return out
}

// resolveMeaning says what the flags of resolveCommands mean.
var resolveMeaning = [...]string{"it happened", "it did not happen and may be tried again", "nobody will ever know; never try again"}

func attemptColumns() []column[attemptView] {
	return []column[attemptView]{
		{name: "attempt", keep: true, right: true, text: func(v attemptView) string { return fmt.Sprint(v.Attempt) }},
		{name: "call", keep: true, text: func(v attemptView) string { return v.Run.String() + "/" + v.Call }},
		{name: "epoch", keep: true, right: true, text: func(v attemptView) string { return fmt.Sprint(v.Epoch) }},
		{name: "started", keep: true, text: func(v attemptView) string { return stamp(v.StartedAt) }},
		{name: "outcome", keep: true, text: func(v attemptView) string { return v.Outcome }},
		{name: "what", text: func(v attemptView) string {
			switch {
			case v.Error != "":
				return v.Error
			case v.Result != nil:
				return said(*v.Result)
			case v.EndedAt.IsZero():
				return "deadline " + stamp(v.Deadline)
			}
			return ""
		}},
	}
}
