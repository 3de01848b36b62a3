package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/daybookhq/daybook/events"
)

// answer is what a tool's function came to.
type answer struct {
	value    any
	err      error
	panicked bool
}

var errGoexit = errors.New("the tool ended its goroutine")

// invoke calls f in a goroutine of its own, so that a tool that ignores its
// context cannot hold the run. If it is not back when ctx is over and the
// grace has passed, ok is false and the channel still delivers.
func (d *Dispatcher) invoke(ctx context.Context, tool string, f func() (any, error)) (a answer, back <-chan answer, ok bool) {
	ch := make(chan answer, 1)
	go func() {
		a := answer{err: errGoexit, panicked: true}
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("panic: %v", p)
				d.cfg.Logger.Error("tool panicked", "tool", tool, "panic", d.clean(fmt.Sprint(p), maxForeignError),
					"stack", d.clean(string(debug.Stack()), maxMetadata))
			}
			ch <- a
		}()
		v, err := f()
		a = answer{value: v, err: err}
	}()
	select {
	case a = <-ch:
		return a, ch, true
	case <-ctx.Done():
	}
	t := time.NewTimer(d.cfg.Grace)
	defer t.Stop()
	select {
	case a = <-ch:
		return a, ch, true
	case <-t.C:
		return a, ch, false
	}
}

// timeout returns the tool's own bound or the default; 0 means none.
func (d *Dispatcher) timeout(e *entry) time.Duration {
	switch t := e.def.Timeout; {
	case t > 0:
		return t
	case t < 0:
		return 0
	}
	return max(d.cfg.Timeout, 0)
}

// destructiveTimeout is never none.
func (d *Dispatcher) destructiveTimeout(e *entry) time.Duration {
	if t := d.timeout(e); t > 0 {
		return t
	}
	return DefaultTimeout
}

// run calls the tool, with the arguments decoded before if they are still the same.
func (e *entry) run(ctx context.Context, c *Call, inv *Invocation) (any, error) {
	e.calls.Add(1)
	if c.bound != nil && bytes.Equal(c.Arguments, inv.Arguments) {
		return c.bound(ctx, inv)
	}
	return e.tool.Call(ctx, inv)
}

func (d *Dispatcher) invocation(env Env, c Call) *Invocation {
	return &Invocation{
		Arguments: c.Arguments, Call: c.ID, Attempt: c.Attempt, Run: env.Run, Tenant: env.Tenant, Owner: env.Owner,
		SessionID: env.SessionID, Trace: env.Trace, Spawner: env.Spawner, Past: env.Past, Skills: env.Skills, Recaller: env.Recaller,
		Token: events.CallToken(env.Run, c.ID, c.Name, c.Arguments), Progress: func(string, any) {},
	}
}

// resolve substitutes secrets: the last thing before a tool is called.
func (d *Dispatcher) resolve(args json.RawMessage) (out json.RawMessage, err error) {
	if d.cfg.Secrets == nil {
		return args, nil
	}
	perr := guard("secrets", func() error { out, err = d.cfg.Secrets.Resolve(args); return nil })
	if perr != nil {
		return nil, perr
	}
	return out, err
}

// detached returns a context in which an outcome can be stored although the
// call's own is over.
func (d *Dispatcher) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d.cfg.EndTimeout)
}

// dispatchPlain performs a readonly or idempotent call.
func (d *Dispatcher) dispatchPlain(ctx context.Context, env Env, e *entry, c Call) (Disposition, error) {
	started := d.cfg.Now()
	p := events.ToolExecutionStarted{
		Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Effect: string(e.def.Effect), Arguments: c.Arguments, At: started,
	}
	callCtx, cancel := ctx, context.CancelFunc(func() {})
	if t := d.timeout(e); t > 0 {
		p.Deadline = started.Add(t)
		callCtx, cancel = context.WithTimeoutCause(ctx, t, errTimeout)
	}
	defer cancel()
	if b, err := d.spend(ctx, env, e, c); err != nil {
		return Disposition{}, fmt.Errorf("reserve the price of call %s: %w", c.ID, err)
	} else if b != nil {
		return d.block(ctx, env, c, *b)
	}
	if err := env.Recorder.Record(ctx, p); err != nil {
		return Disposition{}, fmt.Errorf("record start of call %s: %w", c.ID, err)
	}
	inv := d.invocation(env, c)
	prog := d.progress(ctx, env, c)
	inv.Progress = prog.report
	args, err := d.resolve(c.Arguments)
	if err != nil {
		return d.plainError(ctx, env, e, c, started, KindSecret, "a secret could not be substituted: "+d.errorText(e, err), events.ToolResult{})
	}
	inv.Arguments, inv.Handles = args, c.Arguments
	a, back, ok := d.invoke(callCtx, c.Name, func() (any, error) { return e.run(callCtx, &c, inv) })
	prog.close()
	if !ok {
		d.late.Go(func() { <-back })
		a.err = context.Cause(callCtx)
	}
	if h, ok := handedOff(a, false); ok {
		return Disposition{State: StateHandedOff, HandedOff: h, Token: inv.Token, Trust: e.def.Trust}, nil
	}
	return d.plainOutcome(ctx, callCtx, env, e, c, started, a)
}

// plainOutcome records what a readonly or idempotent call came to. If ctx
// ended and the tool has nothing to show, the call has no outcome: it is made
// again.
func (d *Dispatcher) plainOutcome(ctx, callCtx context.Context, env Env, e *entry, c Call, started time.Time, a answer) (Disposition, error) {
	if a.err != nil && e.def.Effect == Idempotent {
		a = appliedBefore(a)
	}
	if a.err != nil {
		if ctx.Err() != nil && !a.panicked {
			return Disposition{}, context.Cause(ctx)
		}
		kind, text := d.plainFailure(callCtx, e, a)
		return d.plainError(ctx, env, e, c, started, kind, text, events.ToolResult{})
	}
	r, f := d.finish(ctx, e, c, a.value)
	if f != nil {
		return d.plainError(ctx, env, e, c, started, f.kind, f.text, r)
	}
	ctx, cancel := d.recordable(ctx)
	defer cancel()
	now := d.cfg.Now()
	err := env.Recorder.Record(ctx, events.ToolExecutionFinished{
		Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Result: r, LatencyMS: latency(started, now), At: now,
	})
	if err != nil {
		return Disposition{}, fmt.Errorf("record outcome of call %s: %w", c.ID, err)
	}
	d.spent(ctx, env, e, c, r.Cost)
	return Disposition{State: StateDone, Result: r}, nil
}

// appliedBefore makes a success of the answer that it is already there.
func appliedBefore(a answer) answer {
	if applied := (*AppliedError)(nil); errors.As(a.err, &applied) {
		return answer{value: applied.Outcome}
	}
	return a
}

func (d *Dispatcher) plainFailure(callCtx context.Context, e *entry, a answer) (kind, text string) {
	switch {
	case a.panicked:
		return KindPanic, "the tool crashed: " + d.errorText(e, a.err)
	case errors.Is(context.Cause(callCtx), errTimeout):
		return KindTimeout, fmt.Sprintf("the tool took longer than %v", d.timeout(e))
	case errors.As(a.err, new(*ArgumentError)):
		return KindInvalidArguments, d.errorText(e, a.err)
	}
	if spawn := (*SpawnError)(nil); errors.As(a.err, &spawn) {
		return spawn.Kind, d.errorText(e, a.err)
	}
	return KindToolError, d.errorText(e, a.err)
}

// plainError records a certain failure; r carries the price of what was done.
func (d *Dispatcher) plainError(ctx context.Context, env Env, e *entry, c Call, started time.Time, kind, text string, r events.ToolResult) (Disposition, error) {
	cost := r.Cost
	r = failed(e, text)
	r.Cost = cost
	if changed, f := d.afterCall(ctx, c, r); f == nil {
		r = changed
	} else {
		r.Error = f.text
	}
	ctx, cancel := d.recordable(ctx)
	defer cancel()
	now := d.cfg.Now()
	err := env.Recorder.Record(ctx, events.ToolExecutionError{
		Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Result: r, Error: events.ErrorInfo{Kind: kind, Message: r.Error},
		LatencyMS: latency(started, now), At: now,
	})
	if err != nil {
		return Disposition{}, fmt.Errorf("record outcome of call %s: %w", c.ID, err)
	}
	d.spent(ctx, env, e, c, r.Cost)
	return Disposition{State: StateDone, Result: r}, nil
}

// recordable returns ctx, or a detached one if ctx is over: an outcome that is
// known is recorded.
func (d *Dispatcher) recordable(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return d.detached(ctx)
}

// finish makes the result of a value: rendered, through the middleware, cut.
// With a fault the result has no text, only what was measured.
func (d *Dispatcher) finish(ctx context.Context, e *entry, c Call, value any) (events.ToolResult, *unshowable) {
	r, f := d.render(e, value)
	if f == nil {
		r, f = d.afterCall(ctx, c, r)
	}
	if f == nil {
		r, f = d.fit(e, r)
	}
	if f != nil {
		r.Output, r.Sources, r.Control = "", nil, ""
	}
	return r, f
}

func latency(from, to time.Time) int64 { return max(to.Sub(from).Milliseconds(), 0) }
