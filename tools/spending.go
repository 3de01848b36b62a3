package tools

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
)

// DetailBudget is the detail of a call that a budget does not allow.
const DetailBudget = "budget"

// DetailUnpriced is the detail of a call that is refused because nobody knows its price.
const DetailUnpriced = "unpriced"

// unpriced reports whether calls cost something that nobody knows beforehand.
func (e *entry) unpriced() bool { return e.costOf != nil && e.def.Price == 0 }

// maxPrice keeps a price in pico-USD far below an int64: a million dollars.
const maxPrice = 1_000_000_000_000

// Spending is what calls that cost something count against that are no effects;
// those reserve in Begin and settle in End.
type Spending interface {
	// Reserve holds the price of a call before it is made; one of a tool without a
	// price is only counted. A refusal says which
	// budget does not allow it. An error means that the call is not made and has
	// no outcome.
	Reserve(ctx context.Context, c Call, def *Definition) (refusal string, err error)
	// Settle says what the call cost; nil = nobody knows.
	Settle(ctx context.Context, c Call, cost *events.PicoUSD)
}

// spend holds the price of a call; blocked is set if a budget does not allow it.
func (d *Dispatcher) spend(ctx context.Context, env Env, e *entry, c Call) (blocked *blockage, err error) {
	if e.unpriced() && env.RefuseUnpriced {
		return &blockage{
			entry: e, reason: events.BlockedPermissionDenied, detail: DetailUnpriced,
			text: fmt.Sprintf("nobody knows what %s costs, and calls without a known price are refused here. Do not try again.", c.Name),
		}, nil
	}
	if e.def.Price == 0 && !e.unpriced() || env.Spending == nil {
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
	if (e.def.Price > 0 || e.unpriced()) && env.Spending != nil {
		env.Spending.Settle(ctx, c, cost)
	}
}
