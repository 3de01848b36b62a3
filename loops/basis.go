package loops

import (
	"math"

	"github.com/daybookhq/daybook/events"
)

// Basis is what a run had recorded when its model asked for the calls of the
// turn in hand. Results of these calls are not in it, so it is the same for each
// of them, in whatever order they end, and after a crash.
type Basis struct {
	// Spent is what the run's own model and tool calls cost, as far as it is known.
	// Inherited history cost another run.
	Spent events.PicoUSD
	// Unpriced counts model calls that were billed and have no known price.
	Unpriced int
	// External is as [History.External] was; nil = nothing had come in.
	External *External
}

// Basis returns that of the turn in hand.
func (h *History) Basis() Basis { return h.turn.basis }

func (h *History) takeBasis() { h.turn.basis = Basis{h.spent, h.unpriced, h.external} }

// pay adds what an event says that something cost.
func (h *History) pay(p events.Payload) {
	var cost *events.PicoUSD
	switch p := p.(type) {
	case events.ModelCallFinished:
		if cost = p.Cost; cost == nil {
			h.unpriced++
		}
	case events.ModelCallError:
		if cost = p.Cost; cost == nil && p.Usage != nil {
			h.unpriced++
		}
	case events.ToolExecutionFinished:
		if !p.Repeated { // an earlier outcome was paid for where it was made
			cost = p.Result.Cost
		}
	case events.ToolExecutionError:
		if !p.Repeated {
			cost = p.Result.Cost
		}
	}
	switch {
	case cost == nil || *cost < 0:
	case h.spent > math.MaxInt64-*cost:
		h.spent = math.MaxInt64
	default:
		h.spent += *cost
	}
}
