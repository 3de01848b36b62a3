package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// budgetMaxTokens bounds the answer of a model call that counts against a budget,
// if its agent bounds none: without a bound nobody can say what it may cost.
const budgetMaxTokens = 8192

// reserveModel holds what a model call may cost at most, if the run has a budget,
// and gives its answer a bound. held is what settles it, zero if nothing is held.
// If a budget does not allow it the run's end is recorded, and allowed is false.
func (s *session) reserveModel(ctx context.Context, c wireCall, attempt int, req *model.Request) (held events.ID, allowed bool, err error) {
	output := int64(req.MaxTokens)
	if output == 0 {
		output = budgetMaxTokens
	}
	r := ledger.Reservation{
		Attempt:  ledger.ModelAttempt(s.run.ID, s.lease.Epoch, c.turn, attempt),
		What:     fmt.Sprintf("model %s, turn %d attempt %d", req.Model, c.turn, attempt),
		RunLimit: s.agent.Budget,
	}
	if most := s.w.cfg.Prices.AtMost(req.Model, s.w.cfg.Now(), req.InputBound(), output); most != nil {
		r.Amount = *most
	} else {
		r.Unpriced = true
	}
	if r.Unpriced && s.policy.priced {
		return events.ID{}, false, s.end(ctx, events.RunFailed{
			StoppedBy: events.StoppedByBudget, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: ledger.DetailUnpriced, Message: fmt.Sprintf(
				"%s: nobody knows what %s costs, and budget_unpriced is refuse: give the worker a price of it, or set budget_unpriced: allow in the agent's file", r.What, req.Model)},
		})
	}
	ok, err := s.reserve(ctx, r)
	if over := (*ledger.BudgetError)(nil); errors.As(err, &over) {
		if err := s.Record(ctx, over.Event()); err != nil {
			return events.ID{}, false, err
		}
		return events.ID{}, false, s.end(ctx, events.RunFailed{
			StoppedBy: events.StoppedByBudget, Turns: s.hist.Turns(),
			Error: events.ErrorInfo{Kind: "budget", Message: r.What + ": " + over.Error()},
		})
	}
	if err != nil || !ok {
		return events.ID{}, err == nil, err
	}
	req.MaxTokens = int(output)
	return r.Attempt, true, nil
}

// reserve asks until the database answers.
func (s *session) reserve(ctx context.Context, r ledger.Reservation) (held bool, err error) {
	for attempt := 1; ; attempt++ {
		held, err = s.w.cfg.Ledger.Reserve(ctx, s.lease, r)
		switch {
		case errors.Is(err, ledger.ErrFenced):
			s.stop(errLeaseLost)
			return false, err
		case !errors.Is(err, ledger.ErrUnavailable):
			return held, err
		}
		wait := backoff(attempt, s.w.cfg.Random)
		s.log.Warn("reserve: database unavailable, trying again", "in", wait, "error", s.w.cfg.Redactor.Error(err))
		if err := sleep(ctx, wait); err != nil {
			return false, err
		}
	}
}

// settleCost says what an attempt cost; nil = nobody knows. It tries as long as
// the session has its run. What it cannot say is settled from the history, or
// stays unsettled.
func (s *session) settleCost(ctx context.Context, attempt events.ID, cost *events.PicoUSD) {
	if attempt.IsZero() {
		return
	}
	for try := 1; ; try++ {
		err := s.w.cfg.Ledger.Settle(ctx, attempt, cost)
		if err == nil {
			return
		}
		s.log.Warn("cost not settled yet", "attempt", attempt, "error", s.w.cfg.Redactor.Error(err))
		if !errors.Is(err, ledger.ErrUnavailable) || sleep(s.ctx, backoff(try, s.w.cfg.Random)) != nil {
			return
		}
	}
}

// sessionSpending is what priced calls that are no effects count against.
type sessionSpending struct{ s *session }

// Reserve implements [tools.Spending].
func (p sessionSpending) Reserve(ctx context.Context, c tools.Call, def *tools.Definition) (refusal string, err error) {
	s := p.s
	id := ledger.CallAttempt(s.run.ID, s.lease.Epoch, c.ID, c.Attempt)
	held, err := s.reserve(ctx, ledger.Reservation{
		Attempt: id, Amount: priceOf(def), RunLimit: s.agent.Budget, Unpriced: def.Price == 0,
		What: fmt.Sprintf("%s, call %s attempt %d", def.Name, c.ID, c.Attempt),
	})
	if held {
		s.in.Lock()
		s.holding[id] = true
		s.in.Unlock()
	}
	if over := (*ledger.BudgetError)(nil); errors.As(err, &over) {
		return over.Error(), nil
	}
	return "", err
}

// Settle implements [tools.Spending].
func (p sessionSpending) Settle(ctx context.Context, c tools.Call, cost *events.PicoUSD) {
	s, id := p.s, ledger.CallAttempt(p.s.run.ID, p.s.lease.Epoch, c.ID, c.Attempt)
	s.in.Lock()
	held := s.holding[id]
	delete(s.holding, id)
	s.in.Unlock()
	if held {
		s.settleCost(ctx, id, cost)
	}
}

func priceOf(d *tools.Definition) events.PicoUSD { return events.PicoUSD(d.Price) * events.MicroUSD }
