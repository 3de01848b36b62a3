package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
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
	latest            int                // attempt, as the row of the effect had it
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
	x, err := a.explainer(st).Effect(ctx, e)
	return viewOfEffect(x), err
}

func viewOfEffect(e telling.Effect) effectView {
	v := effectView{
		OpKey: e.OpKey, Generation: e.Generation, State: e.State, Tool: e.Tool, Tenant: e.Tenant, Scope: e.Scope, ScopeKey: e.ScopeKey,
		Recovery: e.Recovery.Kind, Identity: e.Identity, Arguments: e.Arguments, Run: e.Run, Call: e.Call.String(), CreatedAt: e.CreatedAt,
		InDoubtSince: e.Since, Cause: e.Cause, Evidence: e.Evidence, SettledBy: e.SettledBy, SettledAt: e.SettledAt, Forced: e.Forced, Contradicted: e.Contradicted,
		PossibleDuplicate: e.PossibleDuplicate, Outcome: e.Outcome, Attempts: viewsOf(e.Tried, newAttemptView), Waiting: e.Waiting, latest: e.Attempts,
	}
	if e.Recovery.TTL > 0 {
		v.RecoveryTTL = e.Recovery.TTL.String()
	}
	if e.State == events.EffectInDoubt || e.State == events.EffectStarted {
		quiet := e.QuiescentIn <= 0
		v.Quiescent, v.QuiescentAt = &quiet, e.QuiescentAt
	}
	return v
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

// resolvable says from when an effect in doubt may be resolved; the star is explained below the table.
func (a *app) resolvable(v effectView) string {
	if v.Quiescent != nil && !*v.Quiescent {
		return "in " + span(v.QuiescentAt.Sub(a.now())) + " *"
	}
	return "now"
}

// resolveCommands are what a person can type about an effect in doubt.
func (a *app) resolveCommands(v effectView) []next {
	var out []next
	for _, r := range telling.ResolutionsOf(v.latest) {
		out = append(out, next{a.command(append([]string{"resolve", shortKey(v.OpKey)}, r.Words...)...), r.For})
	}
	return out
}

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
