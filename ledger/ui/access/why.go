package access

import (
	"context"
	"errors"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// maxSession bounds how many runs of a session are read.
const maxSession = 10_000

// Session implements [KinReader].
func (s *scoped) Session(ctx context.Context, run events.RunID) ([]ledger.Summary, error) {
	r, err := s.Run(ctx, run)
	if err != nil || r.SessionID == "" {
		return nil, err
	}
	all, err := s.st.SessionRuns(ctx, r.Tenant, r.SessionID, 0, maxSession)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o ledger.Summary) bool { return !s.sees(o.Run) }), nil
}

// RolledBack implements [LedgerReader].
func (s *scoped) RolledBack(ctx context.Context) error {
	if err := s.everything("the database's past"); err != nil {
		return err
	}
	return s.st.RolledBack(ctx)
}

// Handoffs implements [WaitReader].
func (s *scoped) Handoffs(ctx context.Context, run events.RunID, states ...ledger.HandoffState) ([]ledger.Handoff, error) {
	if _, err := s.Run(ctx, run); err != nil {
		return nil, err
	}
	return s.st.Handoffs(ctx, ledger.HandoffFilter{Run: run, States: states, Limit: ledger.MaxChildren})
}

// Switches implements [WaitReader]. Whoever sees one owner's runs alone sees the
// switches that the run waits for, and no others of the tenant.
func (s *scoped) Switches(ctx context.Context, run events.RunID) ([]ledger.Switch, error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	all, err := s.st.Switches(ctx, ledger.SwitchFilter{Tenant: r.Tenant, Limit: 1000})
	if err != nil || s.p.Owner == "" {
		return all, err
	}
	return slices.DeleteFunc(all, func(w ledger.Switch) bool {
		return r.ParkKey != ledger.SwitchKey(w.Tenant, w.Tool) && w.Tool != ledger.EveryTool
	}), nil
}

// Budgets implements [WaitReader]. What a whole tenant spends is not for who sees
// one owner's runs alone, nor what the lineage of a run spends that is another's.
func (s *scoped) Budgets(ctx context.Context, run events.RunID) ([]ledger.Budget, error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	var filters []ledger.BudgetFilter
	add := func(kind ledger.BudgetKind, name string) {
		filters = append(filters, ledger.BudgetFilter{Tenant: r.Tenant, Kind: kind, Name: name})
	}
	if _, err := s.Run(ctx, r.Root); err == nil || s.p.All() {
		add(ledger.BudgetRun, r.Root.String())
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	if r.Root != r.ID {
		add(ledger.BudgetRun, r.ID.String())
	}
	if r.Owner != "" {
		add(ledger.BudgetOwner, r.Owner)
	}
	if s.p.Owner == "" {
		add(ledger.BudgetTenant, "")
	}
	var all []ledger.Budget
	for _, f := range filters {
		bs, err := s.st.Budgets(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, bs...)
	}
	return all, nil
}

// Queue implements [WaitReader]. Who does not see everything is told how the queue
// is bounded and whether it is paused, and not how many runs are in it.
func (s *scoped) Queue(ctx context.Context, run events.RunID) (ledger.QueueStats, error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		return ledger.QueueStats{}, err
	}
	stats, err := s.st.QueueStats(ctx, r.Queue)
	if err != nil || len(stats) == 0 {
		return ledger.QueueStats{}, err
	}
	q := stats[0]
	if s.p.All() {
		return q, nil
	}
	return ledger.QueueStats{Queue: q.Queue, NextStart: q.NextStart, Limit: q.Limit, Paused: q.Paused}, nil
}

// Holders implements [WaitReader].
func (s *scoped) Holders(ctx context.Context, run events.RunID) ([]ledger.Run, error) {
	r, err := s.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	return s.runs(s.st.Holders(ctx, r.Queue, 1000))
}
