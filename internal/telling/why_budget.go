package telling

import (
	"context"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyBudgets says what the budgets of a run allow, if one of them has stopped it
// or will: what is used, what is held for calls under way or unsettled, what is left.
func (t Explainer) whyBudgets(ctx context.Context, e *Explanation, r ledger.Run) error {
	bs, err := t.From.Budgets(ctx, r.ID)
	if err != nil {
		return err
	}
	stopped := r.StoppedBy == events.StoppedByBudget
	if r.State.Ended() && !stopped {
		return nil
	}
	for _, b := range bs {
		left, bound := Left(b)
		e.Budgets = append(e.Budgets, b)
		if !bound || !stopped && left > 0 {
			continue
		}
		e.say("The budget of %s is %s USD: %s are spent, %s are held for calls under way, %s for calls whose cost nobody knows, and %s are left. %s set it at %s.",
			b.BudgetKey, b.Limit, b.Spent, b.Reserved, b.Unsettled, left, b.SetBy, t.Since(b.SetAt))
		if b.Unpriced > 0 {
			e.say("It does not cover %s without a known price.", Plural(b.Unpriced, "call"))
		}
		if b.Period == ledger.PerDay {
			tomorrow := t.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
			e.say("It begins anew at %s: waiting until then is enough.", t.Since(tomorrow))
		}
		e.next("raise that budget", setBudget(b.BudgetKey)...)
		if b.Unsettled > 0 {
			e.next("the calls whose cost nobody knows; settling them frees what they hold", "budgets", "--open")
		}
	}
	if !r.State.Ended() && slices.ContainsFunc(e.Budgets, func(b ledger.Budget) bool { left, bound := Left(b); return bound && left <= 0 }) {
		e.say("No call that costs anything is made meanwhile: its next model call stops the run.")
		e.next("if it shall not go on", "cancel", r.ID.String(), "--reason", "TEXT")
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

// Left is what a budget has left; bound is whether it bounds anything.
func Left(b ledger.Budget) (left events.PicoUSD, bound bool) {
	if b.Limit == nil {
		return 0, false
	}
	return *b.Limit - b.Committed(), true
}
