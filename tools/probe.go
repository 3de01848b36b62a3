package tools

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
)

// ProbeOutcome is what a probe found, rendered like a result.
type ProbeOutcome struct {
	State  ProbeState
	Result events.ToolResult // of ProbeHappened
	// Evidence says why nothing is known, redacted.
	Evidence string
}

// Probe asks the provider of a destructive tool whether the effect of ref
// happened; c is the call that began it. A probe that fails knows nothing. An
// error means that the tool cannot be asked, or that ctx ended.
func (d *Dispatcher) Probe(ctx context.Context, env Env, c Call, ref events.EffectRef) (ProbeOutcome, error) {
	e := d.entries[c.Name]
	if e == nil {
		return ProbeOutcome{}, &NameError{c.Name, ErrUnknownTool}
	}
	e = e.bound(env.Bindings)
	if e.probe == nil {
		return ProbeOutcome{}, fmt.Errorf("probe %s: the tool cannot be asked", c.Name)
	}
	if ctx.Err() != nil {
		return ProbeOutcome{}, context.Cause(ctx)
	}
	inv := d.invocation(env, c)
	inv.OpKey, inv.Fence, inv.Prior = ref.OpKey.String(), ref.Attempt, true
	args, err := d.resolve(c.Arguments)
	if err != nil {
		return ProbeOutcome{Evidence: "a secret could not be substituted: " + d.errorText(e, err)}, nil
	}
	inv.Arguments = args
	callCtx, cancel := context.WithTimeoutCause(ctx, d.destructiveTimeout(e), errTimeout)
	defer cancel()
	a, back, ok := d.invoke(callCtx, c.Name, func() (any, error) { return e.probe(callCtx, inv) })
	switch {
	case !ok:
		d.late.Go(func() { <-back })
		a.err = fmt.Errorf("the probe did not come back in time")
	case a.err == nil:
		return d.probed(ctx, e, c, a.value.(ProbeResult)), nil
	}
	if ctx.Err() != nil {
		return ProbeOutcome{}, context.Cause(ctx)
	}
	return ProbeOutcome{Evidence: d.errorText(e, a.err)}, nil
}

func (d *Dispatcher) probed(ctx context.Context, e *entry, c Call, p ProbeResult) ProbeOutcome {
	switch p.State {
	case ProbeHappened:
		r, f := d.finish(ctx, e, c, p.Result)
		if f != nil {
			r.Output = "it took effect, do not repeat it; " + f.text
		}
		return ProbeOutcome{State: ProbeHappened, Result: r}
	case ProbeDidNotHappen:
		return ProbeOutcome{State: ProbeDidNotHappen}
	}
	return ProbeOutcome{Evidence: "the provider does not know"}
}
