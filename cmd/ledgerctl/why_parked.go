package main

import (
	"context"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyParked says what a parked run waits for, and who can end that.
func (a *app) whyParked(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	e.say("Run %s of agent %s is parked since %s: it waits for %s. No worker holds it meanwhile.", r.ID, r.Agent, a.since(r.ParkedAt), parkWords(r.ParkReason))
	if r.ParkDetail != "" && r.ParkDetail != r.HeldReason {
		e.say("The worker that parked it said: %s", r.ParkDetail)
	}
	switch r.ParkReason {
	case events.ParkInDoubt, events.ParkEffectBusy:
		if err := a.whyWaitsForEffect(ctx, st, e, r); err != nil {
			return err
		}
	case events.ParkApproval:
		if err := a.whyWaitsForApproval(ctx, st, e, r); err != nil {
			return err
		}
	case events.ParkPaused:
		if r.HeldAt.IsZero() {
			if err := a.whyToolPaused(ctx, st, e, r); err != nil {
				return err
			}
		}
	case events.ParkAsyncTool, events.ParkSignal, events.ParkChild, events.ParkTimer:
		if err := a.whyHandoffs(ctx, st, e, r); err != nil {
			return err
		}
		if len(e.Handoffs) == 0 {
			e.say("What it waited for has come, or its time was up: a worker takes the run at its next look at the queue.")
		}
	case events.ParkAuditBehind:
		e.say("Facts of earlier effects wait to be recorded: check that a worker and a projector run.")
		e.next(a.command("stuck"), "what else stands still")
	case events.ParkNoCapableWorker:
		e.say("Start a worker that has agent %s and its tools (runner worker -h)%s.", r.Agent, with(": ", strings.Join(r.Requires, ", ")))
	}
	if r.ParkReason == events.ParkDiverged {
		e.say("No code of it ran, so nothing is lost: deploy code that asks for what is recorded, and a worker goes on with it.")
	}
	if !r.HeldAt.IsZero() {
		if r.ParkReason != events.ParkPaused {
			e.say("Besides, it is paused: whatever comes in, no worker takes it.")
		}
		a.whyHeld(e, r)
	}
	if !r.WakeAt.IsZero() {
		e.say("It is looked at again at %s whatever happens.", a.since(r.WakeAt))
	}
	e.next(a.command("cancel", r.ID.String(), "--reason", "TEXT"), "if it shall not go on")
	return nil
}

// parkWords say what a run waits for; the keys are stored.
func parkWords(p events.ParkReason) string {
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

func (a *app) whyWaitsForApproval(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	as, err := st.Approvals(ctx, ledger.ApprovalFilter{Run: r.ID, Open: true})
	if err != nil {
		return err
	}
	for _, x := range as {
		a.whyApproval(e, x)
		if x.TaintBy != "" {
			e.say("Foreign text came in before: %s.", x.TaintBy)
		}
		a.decideLines(e, x)
	}
	if len(as) > 0 {
		e.say("Whoever may write to this ledger can decide, once; the record keeps their account.")
	} else {
		e.say("It is decided by now, or its time is over. A worker takes the run at its next look at the queue.")
	}
	return nil
}

// whyApproval says what a person is asked, since when and until when.
func (a *app) whyApproval(e *explanation, x ledger.Approval) {
	e.Approvals = append(e.Approvals, newApprovalView(x))
	e.say("Call %s wants to run %s with %s, and asks since %s because of %s. Nobody has decided; it is refused at %s.", x.Call, x.Tool, x.Arguments, a.since(x.CreatedAt), approvalWords(x.Why), a.since(x.ExpiresAt))
	if x.Rule != "" {
		e.say("A rule asks: %s.", x.Rule)
	}
}

func (a *app) decideLines(e *explanation, x ledger.Approval) {
	e.next(a.command("approve", x.ID.String()), "if it may be done, once, with these arguments")
	e.next(a.command("deny", x.ID.String(), "--reason", "TEXT"), "if it may not; the model is told why")
}

// approvalWords say why a person is asked; the keys are stored.
func approvalWords(why string) string {
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

func (a *app) whyWaitsForEffect(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	if r.ParkKey.IsZero() {
		return nil
	}
	row, err := a.readEffect(ctx, st, r.ParkKey)
	if err != nil {
		return err
	}
	v, err := a.effectView(ctx, st, row)
	if err != nil {
		return err
	}
	if v.Run != r.ID {
		e.say("The effect belongs to call %s/%s (%s), which has it %s.", v.Run, v.Call, v.Tool, stateWords(v.State))
		e.next(a.command("why", v.Run.String()+"/"+v.Call), "why that call is where it is")
	}
	switch v.State {
	case events.EffectInDoubt:
		return a.whyDoubt(ctx, st, e, v)
	case events.EffectStarted:
		e.say("It may be running; its deadline is %s.", a.since(row.Deadline))
	default:
		e.say("The effect is decided by now: %s. A worker takes the run at its next look at the queue.", stateWords(v.State))
	}
	return nil
}

// stateWords say where an effect stands; the keys are stored.
func stateWords(s events.EffectState) string {
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
func (a *app) whyDoubt(ctx context.Context, st ledger.Store, e *explanation, v effectView) error {
	e.Effects = append(e.Effects, v)
	e.say("Nobody can know whether call %s/%s of %s took effect: %s. In doubt since %s, after %s.",
		v.Run, v.Call, v.Tool, causeWords(v.Cause), a.since(v.InDoubtSince), plural(int64(len(v.Attempts)), "attempt"))
	if v.Evidence != "" {
		e.say("What is known: %s", v.Evidence)
	}
	e.say("Its arguments: %s", v.Arguments)
	switch v.Recovery {
	case ledger.RecoveryProbe:
		n, last, err := probes(ctx, st, v)
		switch {
		case err != nil:
			return err
		case n == 0:
			e.say("A worker asks the tool itself (probe) once no attempt can still act; a person can be faster.")
		default:
			e.say("The tool itself was asked %s (probe), and did not know or did not answer, the last time at %s. It is asked again and again; a person can be faster.", plural(int64(n), "time"), a.since(last.Time))
		}
	case ledger.RecoveryKeyed, ledger.RecoveryFenced:
		e.say("A worker runs it again under the same key, as long as the provider tells the two apart (recovery %s).", v.Recovery)
	}
	if v.Quiescent != nil && !*v.Quiescent {
		e.say("An attempt may still be acting until %s: before that only \"it happened\" can be said, or anything with --force.", a.since(v.QuiescentAt))
	} else {
		e.say("No attempt can still act: look where it would have taken effect, and say what you found.")
	}
	for i, line := range a.resolveCommands(v.OpKey) {
		e.next(line, resolveMeaning[i])
	}
	return nil
}
