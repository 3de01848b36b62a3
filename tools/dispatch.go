package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/redact"
)

// blockage is why a call is not run.
type blockage struct {
	entry  *entry // nil if there is no such tool
	reason events.BlockedReason
	detail string
	text   string
	rule   string
	opKey  events.Hash
	of     *events.CallRef
}

// Dispatch performs one call: lookup, filter, arguments, middleware, the three
// again, permission, validator, then the execution. Whatever goes wrong with
// the call itself is a result that the model can act on. An error means that
// the call has no outcome: ctx ended, or the ledger or the recorder failed;
// [*EndError] carries an outcome that could not be stored.
func (d *Dispatcher) Dispatch(ctx context.Context, env Env, c Call) (Disposition, error) {
	if ctx.Err() != nil {
		return Disposition{}, context.Cause(ctx)
	}
	if c.Attempt == 0 {
		c.Attempt = 1
	}
	e, c, b := d.admit(env, c)
	if b == nil && len(d.cfg.CallMiddleware) > 0 {
		changed, err := d.beforeCall(ctx, c)
		if err != nil {
			b = &blockage{entry: e, reason: events.BlockedValidationFailed, detail: "middleware", text: d.clean(rawErrorText(err), maxOwnError)}
		} else {
			e, c, b = d.admit(env, changed)
		}
	}
	if b == nil {
		b = d.permit(ctx, env, e, c)
	}
	if b == nil {
		c.asked, b = d.rule(env, e, c)
	}
	if b == nil {
		b = d.validate(ctx, env, e, c)
	}
	if ctx.Err() != nil {
		return Disposition{}, context.Cause(ctx)
	}
	if b != nil {
		return d.block(ctx, env, c, *b)
	}
	if e.isDestructive(env.Bindings) && !bug.On(bug.NoBegin) {
		return d.dispatchDestructive(ctx, env, e, c)
	}
	return d.dispatchPlain(ctx, env, e, c)
}

// admit is lookup, filter and the check of the arguments, which come back in
// canonical form.
func (d *Dispatcher) admit(env Env, c Call) (*entry, Call, *blockage) {
	e := d.entries[c.Name]
	if e == nil {
		return nil, c, &blockage{reason: events.BlockedUnknownTool, text: d.unknownText(c.Name, env.Offered)}
	}
	e = e.bound(env.Bindings)
	if !permitted(c.Name, d.cfg.Filters) {
		return e, c, &blockage{entry: e, reason: events.BlockedToolDenied, text: fmt.Sprintf("tool %s is not allowed here", c.Name)}
	}
	args, bound, v := d.arguments(e, c)
	if v != nil {
		return e, c, &blockage{
			entry: e, reason: events.BlockedInvalidArguments, detail: v.detail, text: d.clean(v.text(c.Name), maxOwnError),
		}
	}
	c.Arguments, c.bound = args, bound
	return e, c, nil
}

func (d *Dispatcher) arguments(e *entry, c Call) (json.RawMessage, boundCall, *invalid) {
	if c.Malformed {
		return nil, nil, refuse(DetailMalformed, "want one JSON object, got text that is no JSON")
	}
	args, v := object(c.Arguments, d.cfg.MaxArguments)
	if v != nil {
		return nil, nil, v
	}
	if v := e.rules.check(args); v != nil {
		return nil, nil, v
	}
	// A handle may decode only once it is substituted.
	if e.typed == nil || bytes.Contains(args, []byte("secret://")) {
		return args, nil, nil
	}
	bound, err := e.bind(args)
	if err != nil {
		return nil, nil, invalidOf(err)
	}
	return args, bound, nil
}

func (e *entry) bind(args json.RawMessage) (b boundCall, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("argument decoder panicked: %v", p)
		}
	}()
	return e.typed.bind(args)
}

func invalidOf(err error) *invalid {
	if ae, ok := err.(*ArgumentError); ok {
		return &invalid{DetailSchema, ae.Problems}
	}
	return refuse(DetailSchema, "%v", err)
}

func (d *Dispatcher) unknownText(name string, names []string) string {
	if names == nil {
		for _, e := range d.offered {
			names = append(names, e.def.Name)
		}
	}
	offered := "there are none"
	if len(names) > 0 {
		offered = "there are " + clip(strings.Join(names, ", "), maxForeignError)
	}
	return fmt.Sprintf("unknown tool %q: %s", d.clean(name, maxToolName), offered)
}

// block records that a call is not run.
func (d *Dispatcher) block(ctx context.Context, env Env, c Call, b blockage) (Disposition, error) {
	r := failed(b.entry, b.text)
	err := env.Recorder.Record(ctx, events.ToolExecutionBlocked{
		Call: c.ID, Tool: d.clean(c.Name, maxToolName), Arguments: d.shown(c), Reason: b.reason, Detail: b.detail, Rule: d.clean(b.rule, maxOwnError),
		Result: r, OpKey: b.opKey, Of: b.of, At: d.cfg.Now(),
	})
	if err != nil {
		return Disposition{}, fmt.Errorf("record blocked call %s: %w", c.ID, err)
	}
	return Disposition{State: StateDone, Result: r, Blocked: b.reason, Detail: b.detail}, nil
}

// shown is what is recorded of arguments that may be anything.
func (d *Dispatcher) shown(c Call) json.RawMessage {
	switch {
	case len(c.Arguments) == 0:
		return json.RawMessage("{}")
	case len(c.Arguments) > d.cfg.MaxArguments || !json.Valid(c.Arguments) || numbers(c.Arguments) != nil:
		return quoted(d.clean(string(c.Arguments), maxMetadata))
	}
	return c.Arguments
}

// identity is the canonical identity of canonical arguments: the declared
// fields in the order of the canonical form, or all of them.
func identity(def *Definition, args json.RawMessage) (json.RawMessage, *invalid) {
	if len(def.Identity) == 0 {
		return args, nil
	}
	want := map[string]bool{}
	for _, name := range def.Identity {
		want[name] = true
	}
	b := []byte{'{'}
	eachMember(args, func(name string, value []byte) {
		if !want[name] || kindOf(value) == "null" {
			return
		}
		delete(want, name)
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, quoted(name)...), ':'), value...)
	})
	for _, name := range def.Identity {
		if want[name] {
			return nil, refuse(DetailIdentityMissing, "argument %q says which effect this is: it must be there and not null", name)
		}
	}
	return append(b, '}'), nil
}

// dispatchDestructive performs a call through the effect protocol.
func (d *Dispatcher) dispatchDestructive(ctx context.Context, env Env, e *entry, c Call) (Disposition, error) {
	if env.Effects == nil {
		return Disposition{}, errNoEffects
	}
	var id json.RawMessage
	v := redactedArgument(c.Arguments)
	if v == nil {
		id, v = identity(e.def, c.Arguments)
	}
	if v != nil {
		return d.block(ctx, env, c, blockage{
			entry: e, reason: events.BlockedInvalidArguments, detail: v.detail, text: d.clean(v.text(c.Name), maxOwnError),
		})
	}
	def := e.def
	if !e.destructive { // the run was started with a stricter declaration
		def = def.clone()
		def.Effect, def.Recovery = Destructive, Recovery{Kind: RecoveryNone}
	}
	verdict, err := env.Effects.Begin(ctx, Intent{
		Call: c.ID, CallAttempt: c.Attempt, Tool: def, Identity: id, Arguments: c.Arguments,
		Timeout: d.destructiveTimeout(e), Trace: env.Trace, Unpriced: e.unpriced(), AskedBy: c.asked,
	})
	if err != nil {
		return Disposition{}, fmt.Errorf("begin call %s of %s: %w", c.ID, c.Name, err)
	}
	return d.follow(ctx, env, e, def, c, verdict)
}

func redactedArgument(args json.RawMessage) *invalid {
	if redact.HasMarker(args) {
		return refuse(DetailRedactedArgument,
			"a value was redacted, and nothing is done with a redacted value: use the secret's handle secret://name, or leave it out")
	}
	return nil
}

// follow does what the verdict says.
func (d *Dispatcher) follow(ctx context.Context, env Env, e *entry, def *Definition, c Call, v Verdict) (Disposition, error) {
	switch v.Kind {
	case Execute:
		return d.execute(ctx, env, e, def, c, v)
	case Replay:
		return d.replay(ctx, env, c, v)
	case Conflict:
		return d.conflict(ctx, env, e, c, v)
	case GivenUp:
		disp, err := d.block(ctx, env, c, blockage{
			entry: e, reason: events.BlockedPermissionDenied, detail: "abandoned", opKey: v.Ref.OpKey, of: callRef(v.Of),
			text: "unknown whether this took effect, given up by a person; do not retry",
		})
		disp.Verdict = v
		return disp, err
	case Refused:
		disp, err := d.block(ctx, env, c, blockage{
			entry: e, reason: events.BlockedPermissionDenied, detail: v.Detail, text: d.clean(v.Text, maxOwnError),
		})
		disp.Verdict = v
		return disp, err
	case InDoubt:
		return Disposition{State: StateInDoubt, Verdict: v, Continue: def.InDoubtContinue}, nil
	case Busy:
		return Disposition{State: StateBusy, Verdict: v}, nil
	case NeedsApproval:
		return Disposition{State: StateNeedsApproval, Verdict: v}, nil
	case Paused:
		return Disposition{State: StatePaused, Verdict: v}, nil
	case Simulated:
		return d.simulate(ctx, env, c, v)
	}
	return Disposition{}, fmt.Errorf("begin call %s of %s: verdict %d is unknown", c.ID, c.Name, v.Kind)
}

// replay hands an earlier outcome back: to the same call as its own, to
// another one marked as repeated.
func (d *Dispatcher) replay(ctx context.Context, env Env, c Call, v Verdict) (Disposition, error) {
	p := events.ToolExecutionFinished{
		Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Result: v.Result, Redacted: v.Redacted, At: d.cfg.Now(),
	}
	if v.Ref != (events.EffectRef{}) {
		p.Ref = &v.Ref
	}
	if v.Of != (events.CallRef{Run: env.Run, Call: c.ID}) {
		p.Repeated, p.Of = true, callRef(v.Of)
	}
	if err := env.Recorder.Record(ctx, p); err != nil {
		return Disposition{}, fmt.Errorf("record repeated call %s: %w", c.ID, err)
	}
	return Disposition{State: StateDone, Result: v.Result, Verdict: v, Exact: v.Exact}, nil
}

// simulate records a call that was not executed as if it had been, and says so.
func (d *Dispatcher) simulate(ctx context.Context, env Env, c Call, v Verdict) (Disposition, error) {
	free := events.PicoUSD(0)
	r := events.ToolResult{
		Status: "completed", Trust: string(Own), Cost: &free,
		Output: "simulated: not executed, since this run is a fork that simulates its effects; go on as if it had been done",
	}
	err := env.Recorder.Record(ctx, events.ToolExecutionFinished{
		Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Result: r, Simulated: true, At: d.cfg.Now(),
	})
	if err != nil {
		return Disposition{}, fmt.Errorf("record simulated call %s: %w", c.ID, err)
	}
	return Disposition{State: StateDone, Result: r, Verdict: v}, nil
}

func (d *Dispatcher) conflict(ctx context.Context, env Env, e *entry, c Call, v Verdict) (Disposition, error) {
	text := fmt.Sprintf("not done: %s was already done with other arguments by call %s of run %s.\ndone with: %s\nasked now: %s\n"+
		"To act a second time, ask for something that its identity tells apart.",
		c.Name, v.Of.Call, v.Of.Run, clip(string(v.OfArguments), maxForeignError), clip(string(c.Arguments), maxForeignError))
	disp, err := d.block(ctx, env, c, blockage{
		entry: e, reason: events.BlockedInvalidArguments, detail: DetailIdentityConflict, opKey: v.Ref.OpKey, of: callRef(v.Of),
		text: d.clean(text, maxOwnError),
	})
	disp.Verdict = v
	return disp, err
}

func callRef(r events.CallRef) *events.CallRef {
	if r == (events.CallRef{}) {
		return nil
	}
	return &r
}
