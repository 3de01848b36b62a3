package telling

import (
	"context"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyParked says what a parked run waits for, and who can end that.
func (t Explainer) whyParked(ctx context.Context, e *Explanation, r ledger.Run) error {
	e.say("Run %s of agent %s is parked since %s: it waits for %s. No worker holds it meanwhile.", r.ID, r.Agent, t.Since(r.ParkedAt), ParkWords(r.ParkReason))
	if r.ParkDetail != "" && r.ParkDetail != r.HeldReason && (!t.Limited || r.ParkReason != events.ParkEffectBusy) { // which names a run
		e.say("The worker that parked it said: %s", r.ParkDetail)
	}
	switch r.ParkReason {
	case events.ParkInDoubt, events.ParkEffectBusy:
		if err := t.whyWaitsForEffect(ctx, e, r); err != nil {
			return err
		}
	case events.ParkApproval:
		if err := t.whyWaitsForApproval(ctx, e, r); err != nil {
			return err
		}
	case events.ParkPaused:
		if r.HeldAt.IsZero() {
			if err := t.whyToolPaused(ctx, e, r); err != nil {
				return err
			}
		}
	case events.ParkAsyncTool, events.ParkSignal, events.ParkChild, events.ParkTimer:
		if err := t.whyHandoffs(ctx, e, r); err != nil {
			return err
		}
		if len(e.Handoffs) == 0 {
			e.say("What it waited for has come, or its time was up: a worker takes the run at its next look at the queue.")
		}
	case events.ParkAuditBehind:
		e.say("Facts of earlier effects wait to be recorded: check that a worker and a projector run.")
		e.next("what else stands still", "stuck")
	case events.ParkNoCapableWorker:
		e.say("Start a worker that has agent %s and its tools (runner worker -h)%s.", r.Agent, With(": ", strings.Join(r.Requires, ", ")))
	}
	if r.ParkReason == events.ParkDiverged {
		e.say("No code of it ran, so nothing is lost: deploy code that asks for what is recorded, and a worker goes on with it.")
	}
	if !r.HeldAt.IsZero() {
		if r.ParkReason != events.ParkPaused {
			e.say("Besides, it is paused: whatever comes in, no worker takes it.")
		}
		t.whyHeld(e, r)
	}
	if !r.WakeAt.IsZero() {
		e.say("It is looked at again at %s whatever happens.", t.Since(r.WakeAt))
	}
	e.next("if it shall not go on", "cancel", r.ID.String(), "--reason", "TEXT")
	return nil
}

// ParkWords say what a run waits for; the keys are stored.
func ParkWords(p events.ParkReason) string {
	words := map[events.ParkReason]string{
		events.ParkInDoubt:         "somebody to say whether one of its calls took effect",
		events.ParkEffectBusy:      "an effect that another run has begun or has in doubt",
		events.ParkTimer:           "a moment",
		events.ParkModelRetry:      "a moment, since the model's provider asked to wait",
		events.ParkApproval:        "a person's approval",
		events.ParkSignal:          "a message from outside",
		events.ParkChild:           "the runs that it started",
		events.ParkAsyncTool:       "whoever completes one of its calls",
		events.ParkAuditBehind:     "the record of earlier effects to catch up: check that a projector runs",
		events.ParkNoCapableWorker: "a worker that has its tools",
		events.ParkDiverged:        "a worker whose code is that of the run: its script has been changed",
		events.ParkHandover:        "any worker: the last one shut down",
		events.ParkPaused:          "whoever paused it, or its tool, to let it go on",
	}[p]
	return orNo(words, string(p))
}

func (t Explainer) whyWaitsForApproval(ctx context.Context, e *Explanation, r ledger.Run) error {
	as, err := t.From.Approvals(ctx, ledger.ApprovalFilter{Run: r.ID, Open: true})
	if err != nil {
		return err
	}
	for _, x := range as {
		t.whyApproval(e, x)
		if x.TaintBy != "" {
			e.say("Foreign text came in before: %s.", x.TaintBy)
		}
		decideLines(e, x)
	}
	if len(as) > 0 {
		e.say("Whoever may write to this ledger can decide, once; the record keeps their account.")
	} else {
		e.say("It is decided by now, or its time is over. A worker takes the run at its next look at the queue.")
	}
	return nil
}

// whyApproval says what a person is asked, since when and until when.
func (t Explainer) whyApproval(e *Explanation, x ledger.Approval) {
	e.Approvals = append(e.Approvals, x)
	e.say("Call %s wants to run %s with %s, and asks since %s because of %s. Nobody has decided; it is refused at %s.", x.Call, x.Tool, x.Arguments, t.Since(x.CreatedAt), ApprovalWords(x.Why), t.Since(x.ExpiresAt))
	if x.Rule != "" {
		e.say("A rule asks: %s.", x.Rule)
	}
}

func decideLines(e *Explanation, x ledger.Approval) {
	e.next("if it may be done, once, with these arguments", "approve", x.ID.String())
	e.next("if it may not; the model is told why", "deny", x.ID.String(), "--reason", "TEXT")
}

// ApprovalWords say why a person is asked; the keys are stored.
func ApprovalWords(why string) string {
	words := map[string]string{
		ledger.WhyPolicy: "the policy of the tool, the agent or the operator (policy)", ledger.WhyTaint: "foreign text that came in before (taint)",
		ledger.WhyFork: "a fork that asks before each effect (fork)",
	}
	parts := strings.Split(why, ",")
	for i, p := range parts {
		parts[i] = orNo(words[strings.TrimSpace(p)], p)
	}
	return strings.Join(parts, " and ")
}

func (t Explainer) whyWaitsForEffect(ctx context.Context, e *Explanation, r ledger.Run) error {
	if r.ParkKey.IsZero() {
		return nil
	}
	rows, err := t.From.Effects(ctx, ledger.EffectFilter{OpKey: r.ParkKey, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		e.say("The effect belongs to a run that %s.", map[bool]string{true: "you may not see", false: "is not in this ledger any more"}[t.Limited])
		return nil
	}
	v, err := t.Effect(ctx, rows[0])
	if err != nil {
		return err
	}
	if v.Run != r.ID {
		e.say("The effect belongs to call %s/%s (%s), which has it %s.", v.Run, v.Call, v.Tool, StateWords(v.State))
		e.next("why that call is where it is", "why", CallName(v.Run, v.Call))
	}
	switch v.State {
	case events.EffectInDoubt:
		return t.whyDoubt(ctx, e, v)
	case events.EffectStarted:
		e.say("It may be running; its deadline is %s.", t.Since(v.Deadline))
	default:
		e.say("The effect is decided by now: %s. A worker takes the run at its next look at the queue.", StateWords(v.State))
	}
	return nil
}

// StateWords say where an effect stands; the keys are stored.
func StateWords(s events.EffectState) string {
	words := map[events.EffectState]string{
		events.EffectStarted:    "begun and not ended",
		events.EffectApplied:    "applied: it took effect",
		events.EffectNotApplied: "not applied: it took no effect",
		events.EffectInDoubt:    "in doubt",
		events.EffectAbandoned:  "abandoned: a person gave it up as unknown",
	}[s]
	return orNo(words, string(s))
}

// whyDoubt says why nobody can know, from when it may be resolved, and how.
func (t Explainer) whyDoubt(ctx context.Context, e *Explanation, v Effect) error {
	e.Effects = append(e.Effects, v)
	e.say("Nobody can know whether call %s/%s of %s took effect: %s. In doubt since %s, after %s.",
		v.Run, v.Call, v.Tool, CauseWords(v.Cause), t.Since(v.Since), Plural(int64(len(v.Tried)), "attempt"))
	if v.Evidence != "" {
		e.say("What is known: %s", v.Evidence)
	}
	e.say("Its arguments: %s", v.Arguments)
	outlook, err := t.Outlook(ctx, v)
	if err != nil {
		return err
	}
	e.Why = append(e.Why, outlook...)
	for _, r := range ResolutionsOf(v.Attempts) {
		e.next(r.For, append([]string{"resolve", ShortKey(v.OpKey)}, r.Words...)...)
	}
	return nil
}

// Outlook says of an effect in doubt what workers do about it, and what a person can.
func (t Explainer) Outlook(ctx context.Context, v Effect) ([]string, error) {
	var e Explanation
	switch v.Recovery.Kind {
	case ledger.RecoveryProbe:
		n, last, err := t.probes(ctx, v)
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			e.say("A worker asks the tool itself (probe) once no attempt can still act; a person can be faster.")
		default:
			e.say("The tool itself was asked %s (probe), and did not know or did not answer, the last time at %s. It is asked again and again; a person can be faster.", Plural(int64(n), "time"), t.Since(last.Time))
		}
	case ledger.RecoveryKeyed, ledger.RecoveryFenced:
		e.say("A worker runs it again under the same key, as long as the provider tells the two apart (recovery %s).", v.Recovery.Kind)
	}
	if v.QuiescentIn > 0 {
		e.say("An attempt may still be acting until %s: before that only \"it happened\" can be said, or anything with %s.", t.Since(v.QuiescentAt), t.Force)
	} else {
		e.say("No attempt can still act: look where it would have taken effect, and say what you found.")
	}
	return e.Why, nil
}
