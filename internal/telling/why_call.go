package telling

import (
	"context"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// maxNamed is how many calls of one kind an explanation names.
const maxNamed = 10

// whyCalls names the calls of a run that are not simply done.
func (t Explainer) whyCalls(ctx context.Context, e *Explanation, s ledger.Summary) error {
	cs, err := LatestCalls(ctx, t.From, s.ID)
	if err != nil {
		return err
	}
	named := map[string]int{}
	for _, c := range cs {
		kind := c.Status
		if c.Repeated {
			kind = "repeated"
		}
		if kind == "finished" {
			continue
		}
		if named[kind]++; named[kind] > maxNamed {
			continue
		}
		if err := t.whyOne(ctx, e, c, s); err != nil {
			return err
		}
	}
	if err := t.whyWrong(ctx, e, s.ID); err != nil {
		return err
	}
	for kind, n := range named {
		if n > maxNamed {
			e.say("And %d more that are %s (%s).", n-maxNamed, kind, t.Where("calls", "list", "--run", s.ID.String()))
		}
	}
	return nil
}

// whyWrong names the effects of a run whose evidence contradicts itself.
func (t Explainer) whyWrong(ctx context.Context, e *Explanation, run events.RunID) error {
	return EachEffect(ctx, t.From, ledger.EffectFilter{Run: run}, func(f ledger.Effect) {
		if !f.Contradicted && !f.PossibleDuplicate {
			return
		}
		v := Effect{Effect: ledger.Effect{OpKey: f.OpKey, State: f.State, Tool: f.Tool, Run: f.Run, Call: f.Call, SettledBy: f.SettledBy, SettledAt: f.SettledAt, Contradicted: f.Contradicted, PossibleDuplicate: f.PossibleDuplicate, Forced: f.Forced}}
		e.Effects = append(e.Effects, v)
		e.say("Look at call %s of %s: it counts as %s, settled by %s at %s.", f.Call, f.Tool, StateWords(f.State), f.SettledBy, t.Since(f.SettledAt))
		t.whyFlags(e, v)
		e.next("every attempt and what it said", "calls", "show", CallName(f.Run, f.Call))
	})
}

// whyOne is a sentence about one call of a run.
func (t Explainer) whyOne(ctx context.Context, e *Explanation, c ledger.CallRecord, s ledger.Summary) error {
	switch {
	case c.Status == "started" && slices.ContainsFunc(e.Handoffs, func(h ledger.Handoff) bool { return h.Call == c.Call }):
		return nil // said as what the run waits for
	case c.Status == "started" && s.State.Ended():
		e.say("Call %s of %s was started at %s and has no outcome.", c.Call, c.Tool, t.Since(c.At))
	case c.Status == "started":
		e.say("Call %s of %s (%s) was started at %s and has not ended.", c.Call, c.Tool, c.Effect, t.Since(c.At))
	case c.Repeated:
		of, _, err := t.of(ctx, c)
		if err != nil {
			return err
		}
		e.say("Call %s of %s was not executed: the outcome of %s was handed back.", c.Call, c.Tool, of)
	case c.Status == "blocked":
		of, _, err := t.of(ctx, c)
		if err != nil {
			return err
		}
		e.say("Call %s of %s was blocked: %s.", c.Call, c.Tool, blockedWords(c, of))
	case c.Status == "error":
		r, _ := ResultOf(c.Result)
		e.say("Call %s of %s failed: %s", c.Call, c.Tool, Either(": ", c.Reason, c.Detail, r.Error))
	case c.Status == "resolved":
		e.say("Call %s of %s was in doubt; %s resolved it as %s.", c.Call, c.Tool, c.Detail, c.Reason)
	case c.Status == "in_doubt" && c.OpKey == s.ParkKey:
		return nil // said as what the run waits for
	case c.Status == "in_doubt":
		e.say("Call %s of %s is in doubt since %s: %s.", c.Call, c.Tool, t.Since(c.At), CauseWords(c.Reason))
	}
	if c.Status == "blocked" || c.Repeated || c.Status == "in_doubt" {
		e.next("more about call "+c.Call.String(), "why", CallName(c.Run, c.Call))
	}
	return nil
}

// of is the call whose outcome a call was handed; named is whether that may be
// named.
func (t Explainer) of(ctx context.Context, c ledger.CallRecord) (name string, named bool, err error) {
	if c.Of == nil {
		return "", false, nil
	}
	if named, err = t.names(ctx, c.Of.Run); err != nil || !named {
		return "a call that you may not see", false, err
	}
	return RefName(c.Of), true, nil
}

// blockedWords say why a call was not run; the keys are stored.
func blockedWords(c ledger.CallRecord, of string) string {
	words := map[string]string{
		string(events.BlockedUnknownTool):      "there is no such tool",
		string(events.BlockedToolDenied):       "the agent may not use that tool",
		string(events.BlockedInvalidArguments): "its arguments were refused",
		string(events.BlockedPermissionDenied): "it was not allowed",
		string(events.BlockedValidationFailed): "the tool's validator refused it",
	}[c.Reason]
	detail := map[string]string{
		"redacted_argument": "an argument holds a secret that was redacted, and a destructive call never runs on a marker",
		"identity_conflict": "the same thing was done already with other arguments, by " + of,
		"policy":            "a rule denies it",
		"abandoned":         "a person gave this effect up as unknown, so it is never made again",
	}[c.Detail]
	r, _ := ResultOf(c.Result)
	return Either("; ", words+" ("+c.Reason+")", orNo(detail, c.Detail), With("the model was told: ", r.Error))
}

// WhyCall explains a call of a run; ok is whether there is such a call.
func (t Explainer) WhyCall(ctx context.Context, run ledger.Run, call events.CallID) (e Explanation, ok bool, err error) {
	rs, err := CallRecords(ctx, t.From, run.ID, func(r ledger.CallRecord) bool { return r.Call == call })
	if err != nil {
		return e, false, err
	}
	if len(rs) == 0 {
		return t.whyNotBegun(ctx, run, call)
	}
	c := Standing(rs)
	var f *Effect
	if !c.OpKey.IsZero() {
		es, err := t.From.Effects(ctx, ledger.EffectFilter{OpKey: c.OpKey, Limit: 1})
		if err != nil {
			return e, false, err
		}
		for _, row := range es {
			v, err := t.Effect(ctx, row)
			if err != nil {
				return e, false, err
			}
			f = &v
		}
	}
	full := CallName(run.ID, call)
	e = Explanation{Run: run.ID, Call: call.String(), State: c.Status}
	of, named, err := t.of(ctx, c)
	if err != nil {
		return e, false, err
	}
	switch {
	case c.Status == "blocked":
		e.say("Call %s of %s was not run: %s.", full, c.Tool, blockedWords(c, of))
	case c.Repeated:
		e.say("Call %s of %s was not executed. The same effect (op key %s) was applied already by call %s, and its outcome was handed back.", full, c.Tool, ShortKey(c.OpKey), of)
	case c.Status == "finished" || c.Status == "error":
		whyExecuted(&e, full, c, f)
	case c.Status == "resolved":
		e.say("Call %s of %s was executed, and then nobody could know whether it took effect. %s resolved it as %s at %s.", full, c.Tool, c.Detail, c.Reason, t.Since(c.At))
		if f != nil && f.Evidence != "" {
			e.say("How they knew: %s", f.Evidence)
		}
	default:
		if err := t.whyOpen(ctx, &e, full, run, c, f); err != nil {
			return e, false, err
		}
	}
	if named && (c.Status == "blocked" || c.Repeated) {
		e.next("the call that took effect", "calls", "show", of)
	}
	if f != nil {
		t.whyFlags(&e, *f)
	}
	e.next("every transition, arguments and result", "calls", "show", full)
	return e, true, nil
}

func whyExecuted(e *Explanation, full string, c ledger.CallRecord, f *Effect) {
	took := ""
	if c.LatencyMS != nil {
		took = " and took " + (time.Duration(*c.LatencyMS) * time.Millisecond).String()
	}
	res, _ := ResultOf(c.Result)
	verb := "finished"
	if c.Status == "error" {
		verb = "failed"
	}
	e.say("Call %s of %s (%s) was executed: attempt %d started at %s%s, and it %s: %s", full, c.Tool, c.Effect, c.Attempt, Stamp(c.StartedAt), took, verb, Said(res))
	if f != nil {
		e.say("Its effect (op key %s) is %s, after %s.", ShortKey(f.OpKey), StateWords(f.State), Plural(int64(len(f.Tried)), "attempt"))
	}
}

// whyOpen explains a call that has no outcome.
func (t Explainer) whyOpen(ctx context.Context, e *Explanation, full string, run ledger.Run, c ledger.CallRecord, f *Effect) error {
	switch {
	case c.Status == "in_doubt" && f == nil:
		e.say("Call %s of %s is in doubt since %s: %s.", full, c.Tool, t.Since(c.At), CauseWords(c.Reason))
	case c.Status == "in_doubt" && f.State == events.EffectInDoubt:
		if err := t.whyDoubt(ctx, e, *f); err != nil {
			return err
		}
		for _, w := range f.Waiting {
			e.say("Run %s waits for it.", w)
		}
	case c.Status == "in_doubt":
		e.say("Call %s of %s was in doubt, and is decided by now: %s. Its run has not taken that in yet.", full, c.Tool, StateWords(f.State))
	default:
		away, err := t.whyAway(ctx, e, c)
		if err != nil || away {
			return err
		}
		e.say("Call %s of %s (%s) is executing: attempt %d started at %s and has not ended.", full, c.Tool, c.Effect, c.Attempt, t.Since(c.StartedAt))
		if f != nil && len(f.Tried) > 0 {
			e.say("It has to end by %s; else nobody can know whether it took effect.", t.Since(f.Tried[len(f.Tried)-1].Deadline))
		}
		if !run.State.Ended() {
			t.whyLease(e, run)
		}
	}
	return nil
}

// whyAway explains a call that was handed off; away is whether it was.
func (t Explainer) whyAway(ctx context.Context, e *Explanation, c ledger.CallRecord) (away bool, err error) {
	hs, err := t.From.Handoffs(ctx, c.Run)
	if err != nil {
		return false, err
	}
	for _, h := range hs {
		if h.Call != c.Call {
			continue
		}
		e.Handoffs = append(e.Handoffs, h)
		if h.State == ledger.HandoffOpen {
			return true, t.whyHandoff(ctx, e, h)
		}
		if h.State == ledger.HandoffCompleted {
			e.say("Call %s of %s was completed from outside at %s, by %s. Its run has not taken that in yet.", h.Call, h.Tool, t.Since(h.CompletedAt), h.CompletedBy)
			return true, nil
		}
	}
	return false, nil
}

// whyNotBegun explains a call that waits for an approval: it has not begun, so
// there is no record of it yet. ok is whether there is one.
func (t Explainer) whyNotBegun(ctx context.Context, run ledger.Run, call events.CallID) (e Explanation, ok bool, err error) {
	as, err := t.From.Approvals(ctx, ledger.ApprovalFilter{Run: run.ID, Open: true})
	if err != nil {
		return e, false, err
	}
	e = Explanation{Run: run.ID, Call: call.String(), State: "approval"}
	for _, a := range as {
		if a.Call == call {
			ok = true
			e.say("Call %s of %s has not begun.", CallName(run.ID, call), a.Tool)
			t.whyApproval(&e, a)
			decideLines(&e, a)
		}
	}
	return e, ok, nil
}

func (t Explainer) whyFlags(e *Explanation, f Effect) {
	if f.Forced {
		e.say("It was resolved with %s, before it was sure that no attempt could still act.", t.Force)
	}
	if f.Contradicted {
		e.say("Late evidence says the contrary of what it was resolved as: look where it took effect.")
	}
	if f.PossibleDuplicate {
		e.say("Two attempts say that they took effect: it may have happened twice.")
	}
}
