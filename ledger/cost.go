package ledger

import (
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
)

// CostFilter selects what is summed. By is "run", "owner", "model", "tool", "agent",
// "queue", "day" or empty for one total. A day is that of the call, in UTC: of a
// model call when its outcome came, and while it has none, when it was asked.
type CostFilter struct {
	Tenant string
	Run    events.RunID
	// Lineage adds to Run its children, theirs, and so on.
	Lineage bool
	Owner   string
	By      string
	// Since and Until leave only runs that were queued from the one on and before
	// the other, to the millisecond; zero is no bound. Their ids are in the order of
	// time, so nothing else is read.
	Since, Until time.Time
}

// CostRow is a sum: what is priced, and how much is not.
type CostRow struct {
	Key          string
	ModelCost    *big.Int // pico-USD
	ToolCost     *big.Int // pico-USD
	ModelCalls   int64
	ToolCalls    int64
	Unpriced     int64 // model calls without a price
	Unmeasured   int64 // tool calls without a cost
	Unsettled    int64 // model calls without an outcome
	InputTokens  int64
	OutputTokens int64
}

// Plus is r and o in one; the key is r's.
func (r CostRow) Plus(o CostRow) CostRow {
	r.ModelCost, r.ToolCost = plus(r.ModelCost, o.ModelCost), plus(r.ToolCost, o.ToolCost)
	r.ModelCalls += o.ModelCalls
	r.ToolCalls += o.ToolCalls
	r.Unpriced += o.Unpriced
	r.Unmeasured += o.Unmeasured
	r.Unsettled += o.Unsettled
	r.InputTokens += o.InputTokens
	r.OutputTokens += o.OutputTokens
	return r
}

// Cost is what models and tools cost together, in pico-USD.
func (r CostRow) Cost() *big.Int { return plus(r.ModelCost, r.ToolCost) }

// plus is a sum in which nil is nothing.
func plus(a, b *big.Int) *big.Int {
	sum := new(big.Int)
	for _, v := range []*big.Int{a, b} {
		if v != nil {
			sum.Add(sum, v)
		}
	}
	return sum
}

// mostDays bounds a gap that [EachDay] fills: a clock that was wrong once is not
// worth ten thousand lines.
const mostDays = 366

// EachDay adds to sums by day, in order, the days in between on which nothing was
// called; not to gaps of more than a year.
func EachDay(rows []CostRow) []CostRow {
	var all []CostRow
	for i, r := range rows {
		if i > 0 {
			from, ferr := time.Parse(time.DateOnly, rows[i-1].Key)
			to, terr := time.Parse(time.DateOnly, r.Key)
			if ferr == nil && terr == nil && to.Sub(from) <= mostDays*24*time.Hour {
				for d := from.AddDate(0, 0, 1); d.Before(to); d = d.AddDate(0, 0, 1) {
					all = append(all, CostRow{Key: d.Format(time.DateOnly), ModelCost: new(big.Int), ToolCost: new(big.Int)})
				}
			}
		}
		all = append(all, r)
	}
	return all
}
