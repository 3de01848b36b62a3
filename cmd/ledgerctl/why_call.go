package main

import (
	"context"
	"errors"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// maxNamed is how many calls of one kind an explanation names.
const maxNamed = 10

// whyCalls names the calls of a run that are not simply done.
func (a *app) whyCalls(ctx context.Context, st ledger.Store, e *explanation, s ledger.Summary) error {
	cs, err := latestCalls(ctx, st, s.ID)
	if err != nil {
		return err
	}
	named := map[string]int{}
	for _, c := range cs {
		v := newCallView(c)
		kind := v.Status
		if v.Repeated {
			kind = "repeated"
		}
		if kind == "finished" {
			continue
		}
		if named[kind]++; named[kind] > maxNamed {
			continue
		}
		a.whyOne(e, v, s)
	}
	if err := a.whyWrong(ctx, st, e, s.ID); err != nil {
		return err
	}
	for kind, n := range named {
		if n > maxNamed {
			e.say("And %d more that are %s (%s).", n-maxNamed, kind, a.command("calls", "list", "--run", s.ID.String()))
		}
	}
	return nil
}

// whyWrong names the effects of a run whose evidence contradicts itself.
func (a *app) whyWrong(ctx context.Context, st ledger.Store, e *explanation, run events.RunID) error {
	return eachEffect(ctx, st, ledger.EffectFilter{Run: run}, func(f ledger.Effect) {
		if !f.Contradicted && !f.PossibleDuplicate {
			return
		}
		v := effectView{OpKey: f.OpKey, State: f.State, Tool: f.Tool, Run: f.Run, Call: f.Call.String(), SettledBy: f.SettledBy, SettledAt: f.SettledAt, Contradicted: f.Contradicted, PossibleDuplicate: f.PossibleDuplicate, Forced: f.Forced}
		e.Effects = append(e.Effects, v)
		e.say("Look at call %s of %s: it counts as %s, settled by %s at %s.", f.Call, f.Tool, stateWords(f.State), f.SettledBy, a.since(f.SettledAt))
		a.whyFlags(e, v)
		e.next(a.command("calls", "show", callName(f.Run, f.Call)), "every attempt and what it said")
	})
}

// whyOne is a sentence about one call of a run.
func (a *app) whyOne(e *explanation, v callView, s ledger.Summary) {
	name := v.Run.String() + "/" + v.Call
	switch {
	case v.Status == "started" && slices.ContainsFunc(e.Handoffs, func(h handoffView) bool { return h.Call == v.Call }):
		return // said as what the run waits for
	case v.Status == "started" && s.State.Ended():
		e.say("Call %s of %s was started at %s and has no outcome.", v.Call, v.Tool, a.since(v.At))
	case v.Status == "started":
		e.say("Call %s of %s (%s) was started at %s and has not ended.", v.Call, v.Tool, v.Effect, a.since(v.At))
	case v.Repeated:
		e.say("Call %s of %s was not executed: the outcome of %s was handed back.", v.Call, v.Tool, v.Of)
	case v.Status == "blocked":
		e.say("Call %s of %s was blocked: %s.", v.Call, v.Tool, blockedWords(v))
	case v.Status == "error":
		e.say("Call %s of %s failed: %s", v.Call, v.Tool, callWhat(v))
	case v.Status == "resolved":
		e.say("Call %s of %s was in doubt; %s resolved it as %s.", v.Call, v.Tool, v.Detail, v.Reason)
	case v.Status == "in_doubt" && v.OpKey == s.ParkKey:
		return // said as what the run waits for
	case v.Status == "in_doubt":
		e.say("Call %s of %s is in doubt since %s: %s.", v.Call, v.Tool, a.since(v.At), causeWords(v.Reason))
	}
	if v.Status == "blocked" || v.Repeated || v.Status == "in_doubt" {
		e.next(a.command("why", name), "more about call "+v.Call)
	}
}

// blockedWords say why a call was not run; the keys are stored.
func blockedWords(v callView) string {
	words := map[string]string{
		string(events.BlockedUnknownTool):      "there is no such tool",
		string(events.BlockedToolDenied):       "the agent may not use that tool",
		string(events.BlockedInvalidArguments): "its arguments were refused",
		string(events.BlockedPermissionDenied): "it was not allowed",
		string(events.BlockedValidationFailed): "the tool's validator refused it",
	}[v.Reason]
	detail := map[string]string{
		"redacted_argument": "an argument holds a secret that was redacted, and a destructive call never runs on a marker",
		"identity_conflict": "the same thing was done already with other arguments, by " + v.Of,
		"policy":            "a rule denies it",
		"abandoned":         "a person gave this effect up as unknown, so it is never made again",
	}[v.Detail]
	r, _ := resultOf(v.Result)
	return either("; ", words+" ("+v.Reason+")", orNo(detail, v.Detail), with("the model was told: ", r.Error))
}

func (a *app) whyCall(ctx context.Context, st ledger.Store, name string) (explanation, error) {
	r, err := a.callReport(ctx, st, name)
	if err != nil {
		if e, ok, aerr := a.whyNotBegun(ctx, st, name); ok || aerr != nil {
			return e, aerr
		}
		return explanation{}, err
	}
	full := r.Run.String() + "/" + r.Call
	e := explanation{Run: r.Run, Call: r.Call, State: r.Status, Next: []next{}}
	switch {
	case r.Status == "blocked":
		e.say("Call %s of %s was not run: %s.", full, r.Tool, blockedWords(r.callView))
		if r.Of != "" {
			e.next(a.command("calls", "show", r.Of), "the call that took effect")
		}
	case r.Repeated:
		e.say("Call %s of %s was not executed. The same effect (op key %s) was applied already by call %s, and its outcome was handed back.", full, r.Tool, shortKey(r.OpKey), r.Of)
		if r.Of != "" {
			e.next(a.command("calls", "show", r.Of), "the call that took effect")
		}
	case r.Status == "finished" || r.Status == "error":
		a.whyExecuted(&e, full, r)
	case r.Status == "resolved":
		e.say("Call %s of %s was executed, and then nobody could know whether it took effect. %s resolved it as %s at %s.", full, r.Tool, r.Detail, r.Reason, a.since(r.At))
		if r.EffectRow != nil && r.EffectRow.Evidence != "" {
			e.say("How they knew: %s", r.EffectRow.Evidence)
		}
	default:
		if err := a.whyOpen(ctx, st, &e, full, r); err != nil {
			return e, err
		}
	}
	if f := r.EffectRow; f != nil {
		a.whyFlags(&e, *f)
	}
	e.next(a.command("calls", "show", full), "every transition, arguments and result")
	return e, nil
}

func (a *app) whyExecuted(e *explanation, full string, r callReport) {
	took := ""
	if r.LatencyMS != nil {
		took = " and took " + latency(r.LatencyMS)
	}
	res, _ := resultOf(r.Result)
	verb := "finished"
	if r.Status == "error" {
		verb = "failed"
	}
	e.say("Call %s of %s (%s) was executed: attempt %d started at %s%s, and it %s: %s", full, r.Tool, r.Effect, r.Attempt, stamp(r.StartedAt), took, verb, said(res))
	if f := r.EffectRow; f != nil {
		e.say("Its effect (op key %s) is %s, after %s.", shortKey(f.OpKey), stateWords(f.State), plural(int64(len(f.Attempts)), "attempt"))
	}
}

// whyOpen explains a call that has no outcome.
func (a *app) whyOpen(ctx context.Context, st ledger.Store, e *explanation, full string, r callReport) error {
	run, err := st.Run(ctx, r.Run)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	f := r.EffectRow
	switch {
	case r.Status == "in_doubt" && f != nil && f.State == events.EffectInDoubt:
		if err := a.whyDoubt(ctx, st, e, *f); err != nil {
			return err
		}
		for _, w := range f.Waiting {
			e.say("Run %s waits for it.", w)
		}
	case r.Status == "in_doubt" && f != nil:
		e.say("Call %s of %s was in doubt, and is decided by now: %s. Its run has not taken that in yet.", full, r.Tool, stateWords(f.State))
	default:
		away, err := a.whyAway(ctx, st, e, r)
		if err != nil || away {
			return err
		}
		e.say("Call %s of %s (%s) is executing: attempt %d started at %s and has not ended.", full, r.Tool, r.Effect, r.Attempt, a.since(r.StartedAt))
		if f != nil && len(f.Attempts) > 0 {
			e.say("It has to end by %s; else nobody can know whether it took effect.", a.since(f.Attempts[len(f.Attempts)-1].Deadline))
		}
		if !run.State.Ended() {
			a.whyLease(e, run)
		}
	}
	return nil
}

// whyAway explains a call that was handed off; away is whether it was.
func (a *app) whyAway(ctx context.Context, st ledger.Store, e *explanation, r callReport) (away bool, err error) {
	hs, err := st.Handoffs(ctx, ledger.HandoffFilter{Run: r.Run, Limit: ledger.MaxChildren})
	if err != nil {
		return false, err
	}
	for _, h := range hs {
		if h.Call.String() != r.Call {
			continue
		}
		e.Handoffs = append(e.Handoffs, viewHandoff(h))
		if h.State == ledger.HandoffOpen {
			return true, a.whyHandoff(ctx, st, e, h)
		}
		if h.State == ledger.HandoffCompleted {
			e.say("Call %s of %s was completed from outside at %s, by %s. Its run has not taken that in yet.", h.Call, h.Tool, a.since(h.CompletedAt), h.CompletedBy)
			return true, nil
		}
	}
	return false, nil
}

// whyNotBegun explains a call that waits for an approval: it has not begun, so
// there is no record of it yet. ok is whether name is such a call.
func (a *app) whyNotBegun(ctx context.Context, st ledger.Store, name string) (e explanation, ok bool, err error) {
	of, call, err := splitCall(name)
	if err != nil {
		return e, false, nil // said by whoever asked first
	}
	run, err := a.readRun(ctx, st, of)
	if err != nil {
		return e, false, nil
	}
	as, err := st.Approvals(ctx, ledger.ApprovalFilter{Run: run.ID, Open: true})
	if err != nil {
		return e, false, err
	}
	e = explanation{Run: run.ID, Call: call.String(), State: "approval", Next: []next{}}
	for _, x := range as {
		if x.Call == call {
			ok = true
			e.say("Call %s of %s has not begun.", callName(run.ID, call), x.Tool)
			a.whyApproval(&e, x)
			a.decideLines(&e, x)
		}
	}
	return e, ok, nil
}

func (a *app) whyFlags(e *explanation, f effectView) {
	if f.Forced {
		e.say("It was resolved with --force, before it was sure that no attempt could still act.")
	}
	if f.Contradicted {
		e.say("Late evidence says the contrary of what it was resolved as: look where it took effect.")
	}
	if f.PossibleDuplicate {
		e.say("Two attempts say that they took effect: it may have happened twice.")
	}
}
