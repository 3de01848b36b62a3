package tools

import (
	"context"

	"github.com/daybookhq/daybook/events"
)

// DetailBudget is the detail of a call that a budget does not allow.
const DetailBudget = "budget"

// maxPrice keeps a price in pico-USD far below an int64: a million dollars.
const maxPrice = 1_000_000_000_000

// Spending is what priced calls count against that are no effects; those reserve
// in Begin and settle in End.
type Spending interface {
	// Reserve holds the price of a call before it is made. A refusal says which
	// budget does not allow it. An error means that the call is not made and has
	// no outcome.
	Reserve(ctx context.Context, c Call, def *Definition) (refusal string, err error)
	// Settle says what the call cost; nil = nobody knows.
	Settle(ctx context.Context, c Call, cost *events.PicoUSD)
}

// spend holds the price of a call; blocked is set if a budget does not allow it.
func (d *Dispatcher) spend(ctx context.Context, env Env, e *entry, c Call) (blocked *blockage, err error) {
	if e.def.Price == 0 || env.Spending == nil {
		return nil, nil
	}
	refusal, err := env.Spending.Reserve(ctx, c, e.def)
	if err != nil || refusal == "" {
		return nil, err
	}
	return &blockage{entry: e, reason: events.BlockedPermissionDenied, detail: DetailBudget, text: d.clean(refusal, maxOwnError)}, nil
}

// spent settles what spend held.
func (d *Dispatcher) spent(ctx context.Context, env Env, e *entry, c Call, cost *events.PicoUSD) {
	if e.def.Price > 0 && env.Spending != nil {
		env.Spending.Settle(ctx, c, cost)
	}
}
