package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
)

// Causes of an unclear outcome. Stored; never renamed.
const (
	CauseTimeout      = "timeout"
	CausePanic        = "panic"
	CauseUnclearError = "unclear_error"
	CauseLeaseLost    = "lease_lost"
	CauseCancelled    = "cancelled"
)

// execute runs a destructive call that has begun, and ends it.
func (d *Dispatcher) execute(ctx context.Context, env Env, e *entry, def *Definition, c Call, v Verdict) (Disposition, error) {
	started := d.cfg.Now()
	callCtx, cancel := context.WithTimeoutCause(ctx, d.destructiveTimeout(e), errTimeout)
	defer cancel()
	if !v.Until.IsZero() {
		callCtx, cancel = context.WithDeadlineCause(callCtx, v.Until, errTimeout)
		defer cancel()
	}
	x := &execution{d: d, env: env, entry: e, def: def, call: c, verdict: v, started: started}
	inv := d.invocation(env, c)
	inv.OpKey, inv.Fence, inv.Prior, inv.Token = v.Ref.OpKey.String(), v.Ref.Attempt, v.Prior, v.Ref.Token
	prog := d.progress(ctx, env, c)
	inv.Progress = prog.report
	args, err := d.resolve(c.Arguments)
	if err != nil {
		return x.end(ctx, x.nothingSent(KindSecret, "a secret could not be substituted: "+d.errorText(e, err), CauseUnclearError))
	}
	inv.Arguments = args
	// The last look before the first byte goes out.
	if v.Held != nil && !v.Held() {
		return x.end(ctx, x.nothingSent(KindNotRun, "not run: the lease ended before it could begin", CauseLeaseLost))
	}
	if callCtx.Err() != nil || !v.Until.IsZero() && !d.cfg.Now().Before(v.Until) {
		return x.end(ctx, x.nothingSent(KindNotRun, "not run: its time was up before it could begin", causeOf(callCtx)))
	}
	if bug.On(bug.RecordFirst) {
		_, _ = env.Effects.End(ctx, x.applied(ctx, "done"))
	}
	fault.Point("exec.before_first_byte")
	a, back, ok := d.invoke(callCtx, c.Name, func() (any, error) { return e.run(callCtx, &c, inv) })
	prog.close()
	if ok {
		fault.Point("exec.after_reply")
		if h, ok := handedOff(a, true); ok {
			return Disposition{State: StateHandedOff, HandedOff: h, Token: inv.Token, Trust: e.def.Trust, Verdict: v}, nil
		}
		return x.end(ctx, x.outcome(ctx, callCtx, a))
	}
	disp, err := x.end(ctx, x.unclear(causeOf(callCtx), "the tool did not come back in time"))
	d.late.Go(func() { x.endLate(ctx, <-back) })
	return disp, err
}

// execution is one attempt of an effect.
type execution struct {
	d       *Dispatcher
	env     Env
	entry   *entry
	def     *Definition
	call    Call
	verdict Verdict
	started time.Time
}

// outcome says what is known of the attempt from the tool's answer.
func (x *execution) outcome(ctx, callCtx context.Context, a answer) Outcome {
	d, e := x.d, x.entry
	applied := (*AppliedError)(nil)
	switch {
	case a.panicked:
		return x.unclear(CausePanic, d.errorText(e, a.err))
	case a.err == nil:
		if _, ok := handedOff(a, true); ok { // too late: nobody waits for it, but by its token it can still be settled
			return x.unclear(CauseTimeout, "it was handed off after its time was up")
		}
		return x.applied(ctx, a.value)
	case errors.As(a.err, &applied) && (x.def.Recovery.Kind == RecoveryKeyed || x.def.Recovery.Kind == RecoveryFenced):
		return x.applied(ctx, applied.Outcome)
	case errors.Is(a.err, ErrNotApplied):
		kind := KindNoEffect
		if errors.As(a.err, new(*ArgumentError)) {
			kind = KindInvalidArguments
		}
		return x.nothingSent(kind, d.errorText(e, a.err), CauseUnclearError)
	case callCtx.Err() != nil:
		return x.unclear(causeOf(callCtx), d.errorText(e, a.err))
	}
	return x.unclear(CauseUnclearError, d.errorText(e, a.err))
}

// applied is the outcome of a call that took effect. It never becomes a
// failure: a result that cannot be shown is told as done.
func (x *execution) applied(ctx context.Context, value any) Outcome {
	r, f := x.d.finish(ctx, x.entry, x.call, value)
	if f != nil {
		r.Output = "it took effect, do not repeat it; " + f.text
	}
	return Outcome{Ref: x.verdict.Ref, Call: x.call.ID, Kind: Applied, Result: r, LatencyMS: x.latency(), Exact: exactly(value)}
}

// nothingSent is the outcome of an attempt that certainly took no effect. With
// an earlier attempt that may have, this proves nothing about the effect.
func (x *execution) nothingSent(kind, text, cause string) Outcome {
	if x.verdict.Prior {
		return x.unclear(cause, "an earlier attempt may have taken effect; this one: "+text)
	}
	r := failed(x.entry, text)
	return Outcome{
		Ref: x.verdict.Ref, Call: x.call.ID, Kind: NotApplied, Result: r,
		Error: events.ErrorInfo{Kind: kind, Message: text}, LatencyMS: x.latency(),
	}
}

func (x *execution) unclear(cause, evidence string) Outcome {
	if bug.On(bug.TimeoutIsFailure) && cause == CauseTimeout && !x.verdict.Prior {
		return x.nothingSent(KindNoEffect, evidence, cause)
	}
	return Outcome{
		Ref: x.verdict.Ref, Call: x.call.ID, Kind: Unclear, Cause: cause,
		Result: failed(x.entry, "unknown whether this took effect; do not retry"),
		Error:  events.ErrorInfo{Kind: cause, Message: evidence}, LatencyMS: x.latency(),
	}
}

func (x *execution) latency() int64 { return latency(x.started, x.d.cfg.Now()) }

// end stores the outcome, whatever happened to ctx, and goes by what the
// ledger then says of the effect.
func (x *execution) end(ctx context.Context, out Outcome) (Disposition, error) {
	s, err := x.store(ctx, out)
	if err != nil {
		return Disposition{}, err
	}
	disp := Disposition{State: StateDone, Result: s.Result, Verdict: x.verdict}
	switch s.State {
	case events.EffectApplied, events.EffectNotApplied, events.EffectAbandoned:
		if s.State == events.EffectApplied {
			disp.Exact = out.Exact
		}
		return disp, nil
	case events.EffectInDoubt:
		disp.State, disp.Cause, disp.Continue, disp.Result = StateInDoubt, out.Cause, x.def.InDoubtContinue, events.ToolResult{}
		disp.Verdict.Kind = InDoubt
		return disp, nil
	}
	return Disposition{}, fmt.Errorf("end call %s of %s: effect is %q after its end", x.call.ID, x.call.Name, s.State)
}

// endLate stores what a call said after its time: late evidence settles.
func (x *execution) endLate(ctx context.Context, a answer) {
	ctx = context.WithoutCancel(ctx)
	out := x.outcome(ctx, ctx, a)
	if out.Kind == Unclear {
		return // that is known already
	}
	if _, err := x.store(ctx, out); err != nil {
		x.d.cfg.Logger.Error("late outcome not stored", "tool", x.call.Name, "call", x.call.ID.String(),
			"op_key", x.verdict.Ref.OpKey.String(), "error", x.d.clean(rawErrorText(err), maxForeignError))
	}
}

// store asks the ledger until it answers or the time for it is over.
func (x *execution) store(ctx context.Context, out Outcome) (Settled, error) {
	ctx, cancel := x.d.detached(ctx)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		s, err := x.env.Effects.End(ctx, out)
		if err == nil {
			return s, nil
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return Settled{}, &EndError{Outcome: out, Err: err}
		case <-t.C:
		}
	}
}

// causeOf says why a call's context ended.
func causeOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(cause, errTimeout), errors.Is(cause, context.DeadlineExceeded):
		return CauseTimeout
	case errors.Is(cause, ErrLeaseLost):
		return CauseLeaseLost
	}
	return CauseCancelled
}
