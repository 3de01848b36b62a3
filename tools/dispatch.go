package tools

import (
	"context"

	"github.com/daybookhq/daybook/events"
)

// Dispatch performs one call.
func (d *Dispatcher) Dispatch(ctx context.Context, env Env, c Call) (Disposition, error) {
	return Disposition{}, errNoEffects
}

// ProbeOutcome is what a probe found, rendered like a result.
type ProbeOutcome struct {
	State    ProbeState
	Result   events.ToolResult
	Evidence string
}

// Probe asks the provider of a destructive tool whether the effect of ref happened.
func (d *Dispatcher) Probe(ctx context.Context, env Env, c Call, ref events.EffectRef) (ProbeOutcome, error) {
	return ProbeOutcome{}, nil
}
