package ledger

import (
	"github.com/daybookhq/daybook/events"
)

// applyModel folds the events of model calls. Every attempt is a row from its
// start on, so that one without an outcome shows as unsettled.
func (f *Fold) applyModel(e events.Event, out *Rows) {
	switch d := e.Data.(type) {
	case events.ModelCallStarted:
		row := ModelCallRow{
			Run: f.Run, Seq: e.Seq, Tenant: e.Tenant, Owner: f.Totals.Owner, Turn: d.Turn, Attempt: d.Attempt, Epoch: e.Epoch,
			State: "unsettled", Model: clean(d.Model), StartedAt: e.Time, At: e.Time, Trace: clean(e.Trace),
		}
		f.Totals.ModelCalls++
		f.models = append(f.models, modelAttempt{row: row})
		out.put(row)
	case events.ModelCallFinished:
		f.settleModel(e, d.Turn, d.Attempt, "finished", out, func(row *ModelCallRow) {
			row.Model, row.ServedModel = clean(d.Model), clean(d.ServedModel)
			row.Usage, row.Cost, row.LatencyMS = known(d.Usage), d.Cost, &d.LatencyMS
			if d.Rates != nil {
				row.Rates = rawOf(d.Rates)
			}
		})
	case events.ModelCallError:
		f.settleModel(e, d.Turn, d.Attempt, "error", out, func(row *ModelCallRow) {
			row.Model, row.ServedModel, row.ErrorKind = clean(d.Model), clean(d.ServedModel), clean(d.Error.Kind)
			row.Cost, row.LatencyMS = d.Cost, &d.LatencyMS
			if d.Rates != nil {
				row.Rates = rawOf(d.Rates)
			}
			if d.Usage != nil {
				row.Usage = known(*d.Usage)
			}
		})
	}
}

// settleModel gives the attempt its outcome: on its own row, as late if a
// resume has closed it, or as a late row of its own if nothing is known of it.
func (f *Fold) settleModel(e events.Event, turn, attempt int, state string, out *Rows, fill func(*ModelCallRow)) {
	found := -1
	for i, m := range f.models {
		if m.row.Turn == turn && m.row.Attempt == attempt && (found < 0 || !m.dead) {
			found = i
		}
	}
	var row, was ModelCallRow
	if found < 0 {
		row = ModelCallRow{Run: f.Run, Seq: e.Seq, Turn: turn, Attempt: attempt, Epoch: e.Epoch, Tenant: e.Tenant, Owner: f.Totals.Owner, Trace: clean(e.Trace)}
		state = "late"
		f.Totals.ModelCalls++
	} else {
		was = f.models[found].row
		row = was
		if f.models[found].dead {
			state = "late"
		}
		f.models = append(f.models[:found:found], f.models[found+1:]...)
	}
	fill(&row)
	row.State, row.At = state, e.Time
	if found < 0 {
		out.put(row)
	} else {
		out.settle(was, row)
	}

	if row.Usage != nil {
		f.Totals.InputTokens += row.Usage.Input
		f.Totals.OutputTokens += row.Usage.Output
	}
	f.cost(row.Cost)
	if row.Unpriced() {
		f.Totals.Unpriced++
	}
}

// Unpriced reports whether the attempt was, or may have been, billed at a price
// nobody knows. An error without usage was not billed as far as is known, and
// an unsettled attempt is counted as such.
func (m ModelCallRow) Unpriced() bool {
	return m.State != "unsettled" && m.Cost == nil && m.Usage != nil
}

// known returns usage as it is stored: of a missing one nothing is known.
func known(u events.Usage) *events.Usage {
	if u.Missing {
		u = events.Usage{Missing: true}
	}
	return &u
}
