package main

import (
	"context"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyBudgets says what the budgets of a run allow, if one of them has stopped it
// or will: what is used, what is held for calls under way or unsettled, what is left.
func (a *app) whyBudgets(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	bs, err := budgetsOf(ctx, st, r)
	if err != nil {
		return err
	}
	stopped := r.StoppedBy == events.StoppedByBudget
	if r.State.Ended() && !stopped {
		return nil
	}
	for _, b := range bs {
		v := viewOfBudget(b)
		e.Budgets = append(e.Budgets, v)
		if v.Left == nil || !stopped && *v.Left > 0 {
			continue
		}
		e.say("The budget of %s is %s USD: %s are spent, %s are held for calls under way, %s for calls whose cost nobody knows, and %s are left. %s set it at %s.",
			b.BudgetKey, b.Limit, b.Spent, b.Reserved, b.Unsettled, v.Left, b.SetBy, a.since(b.SetAt))
		if b.Unpriced > 0 {
			e.say("It does not cover %s without a known price.", plural(b.Unpriced, "call"))
		}
		if b.Period == ledger.PerDay {
			tomorrow := a.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
			e.say("It begins anew at %s: waiting until then is enough.", a.since(tomorrow))
		}
		e.next(a.command(setBudget(b.BudgetKey)...), "raise that budget")
		if b.Unsettled > 0 {
			e.next(a.command("budgets", "--open"), "the calls whose cost nobody knows; settling them frees what they hold")
		}
	}
	if !r.State.Ended() && slices.ContainsFunc(e.Budgets, func(b budgetView) bool { return b.Left != nil && *b.Left <= 0 }) {
		e.say("No call that costs anything is made meanwhile: its next model call stops the run.")
		e.next(a.command("cancel", r.ID.String(), "--reason", "TEXT"), "if it shall not go on")
	}
	return nil
}

// setBudget is the command that sets a budget.
func setBudget(k ledger.BudgetKey) []string {
	words := []string{"budgets", "set"}
	switch k.Kind {
	case ledger.BudgetRun:
		words = append(words, "--run", k.Name)
	case ledger.BudgetOwner:
		words = append(words, "--tenant", k.Tenant, "--owner", k.Name)
	default:
		words = append(words, "--tenant", k.Tenant)
	}
	if k.Period == ledger.PerDay {
		words = append(words, "--per", "day")
	}
	return append(words, "--limit", "AMOUNT")
}

// budgetsOf reads the budgets that bound a run: its lineage's, its owner's and
// its tenant's.
func budgetsOf(ctx context.Context, st ledger.Store, r ledger.Run) ([]ledger.Budget, error) {
	filters := []ledger.BudgetFilter{{Tenant: r.Tenant, Kind: ledger.BudgetRun, Name: r.Root.String()}}
	if r.Root != r.ID {
		filters = append(filters, ledger.BudgetFilter{Tenant: r.Tenant, Kind: ledger.BudgetRun, Name: r.ID.String()})
	}
	if r.Owner != "" {
		filters = append(filters, ledger.BudgetFilter{Tenant: r.Tenant, Kind: ledger.BudgetOwner, Name: r.Owner})
	}
	filters = append(filters, ledger.BudgetFilter{Tenant: r.Tenant, Kind: ledger.BudgetTenant})
	var all []ledger.Budget
	for _, f := range filters {
		bs, err := st.Budgets(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, bs...)
	}
	return all, nil
}
