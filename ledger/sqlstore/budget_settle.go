package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// billed is what an attempt came to.
type billed struct {
	attempt events.ID
	actual  *events.PicoUSD // nil = nobody knows
	// run and event are set for an outcome that was found in a history. There it
	// may be the late one of an earlier holder, which was settled when it was set
	// aside: it has nothing to say about an attempt of this epoch.
	run   events.RunID
	event events.ID
}

// Settle implements ledger.Budgets.
func (s *Store) Settle(ctx context.Context, attempt events.ID, actual *events.PicoUSD) error {
	if actual != nil && *actual < 0 {
		return fmt.Errorf("settle attempt %s at %s USD: want no negative amount", attempt, *actual)
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if err := s.settleBudgets(ctx, tx, ledger.SettledByUsage, billed{attempt: attempt, actual: actual}); err != nil {
			return err
		}
		return away(fault.Err("cost.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("cost.after_commit"))
	}
	if err != nil {
		return fmt.Errorf("settle attempt %s: %w", attempt, err)
	}
	return nil
}

// share is a reservation's row.
type share struct {
	attempt, budget events.ID
	day             string
	billed          billed
}

// settleBudgets settles attempts in every budget that they count against, in the
// order in which reservations lock them. Attempts without a reservation are passed over.
func (s *Store) settleBudgets(ctx context.Context, tx Tx, by string, bs ...billed) error {
	if len(bs) == 0 {
		return nil
	}
	shares, err := openShares(ctx, tx, bs)
	if err != nil || len(shares) == 0 {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	late := map[events.ID]bool{}
	for _, h := range shares {
		if b := h.billed; !b.event.IsZero() && !late[b.event] {
			var n int
			err := tx.QueryRow(ctx, `SELECT count(*) FROM set_aside WHERE run_id = $1 AND event_id = $2`, b.run, b.event).Scan(&n)
			if err != nil {
				return fmt.Errorf("look for late outcome of attempt %s: %w", b.attempt, err)
			}
			late[b.event] = n > 0
		}
	}
	for _, h := range shares {
		if late[h.billed.event] {
			continue
		}
		if err := s.settleShare(ctx, tx, h, by, now); err != nil {
			return fmt.Errorf("settle attempt %s: %w", h.attempt, err)
		}
	}
	return nil
}

// openShares are the rows of attempts that evidence may still change.
func openShares(ctx context.Context, tx Tx, bs []billed) ([]share, error) {
	ids := make([]events.ID, len(bs))
	of := make(map[events.ID]billed, len(bs))
	for i, b := range bs {
		ids[i], of[b.attempt] = b.attempt, b
	}
	rows, err := tx.Query(ctx, `
		SELECT attempt_id, budget_id, day FROM budget_reservations
		WHERE `+tx.InIDs("attempt_id", 1)+` AND settled_by NOT IN ('usage', 'evidence')`, ids)
	if err != nil {
		return nil, fmt.Errorf("read reservations: %w", err)
	}
	defer rows.Close()
	var out []share
	for rows.Next() {
		var h share
		if err := rows.Scan(&h.attempt, &h.budget, &h.day); err != nil {
			return nil, fmt.Errorf("read reservations: %w", err)
		}
		h.billed = of[h.attempt]
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b share) int {
		return cmp.Or(bytes.Compare(a.budget[:], b.budget[:]), cmp.Compare(a.day, b.day), bytes.Compare(a.attempt[:], b.attempt[:]))
	})
	return out, rows.Err()
}

// settleShare settles one row under the lock of its budget.
func (s *Store) settleShare(ctx context.Context, tx Tx, h share, by string, now time.Time) error {
	var spent, held events.PicoUSD
	err := tx.QueryRow(ctx, `SELECT spent_pico, held_pico FROM budget_periods WHERE budget_id = $1 AND day = $2 FOR UPDATE`, h.budget, h.day).Scan(&spent, &held)
	if err != nil {
		return fmt.Errorf("lock budget: %w", err)
	}
	var amount, drawn events.PicoUSD
	var was *events.PicoUSD
	var state, settledBy string
	var from events.ID
	err = tx.QueryRow(ctx, `
		SELECT amount_pico, actual_pico, state, settled_by, drawn_from, drawn_pico FROM budget_reservations WHERE attempt_id = $1 AND budget_id = $2`,
		h.attempt, h.budget).Scan(&amount, &was, &state, &settledBy, &from, &drawn)
	if err != nil {
		return fmt.Errorf("read reservation: %w", err)
	}
	actual := h.billed.actual
	switch {
	case settledBy == ledger.SettledByUsage, settledBy == ledger.SettledByEvidence:
		return nil // somebody was faster
	case actual == nil:
		_, err := tx.Exec(ctx, `UPDATE budget_reservations SET state = 'unsettled' WHERE attempt_id = $1 AND budget_id = $2 AND state = 'reserved'`, h.attempt, h.budget)
		return err
	case was != nil:
		spent -= *was // a person had said so; what happened counts
	default:
		held -= amount
	}
	if *actual > amount && state != "unpriced" {
		s.cfg.Logger.WarnContext(ctx, "attempt cost more than was reserved for it", "attempt", h.attempt, "reserved", amount.String(), "cost", actual.String())
	}
	g, err := readGrant(ctx, tx, from, h.budget)
	if err != nil {
		return err
	}
	if !g.attempt.IsZero() { // what it did not need goes back there, what it needs beyond it comes from there
		draws := min(*actual, plus(drawn, g.left))
		if err := g.leave(ctx, tx, h.budget, g.left+drawn-draws); err != nil {
			return err
		}
		held, drawn = held+drawn-draws, draws
	}
	err = one(tx.Exec(ctx, `UPDATE budget_periods SET spent_pico = $3, held_pico = $4 WHERE budget_id = $1 AND day = $2`, h.budget, h.day, plus(spent, *actual), held))
	if err != nil {
		return fmt.Errorf("store budget: %w", err)
	}
	return one(tx.Exec(ctx, `
		UPDATE budget_reservations SET state = 'settled', actual_pico = $3, settled_by = $4, settled_at = $5, drawn_pico = $6
		WHERE attempt_id = $1 AND budget_id = $2`, h.attempt, h.budget, *actual, by, now, drawn))
}

// billedLate is what set-aside events say of attempts of the holders that made them.
func billedLate(es []events.Sealed) (out []billed) {
	for _, e := range es {
		d, err := e.Decode()
		if err != nil {
			continue // said loudly where it was set aside
		}
		if attempt, cost, ok := ledger.Billed(d.RunID, d.Epoch, d.Data); ok && cost != nil {
			out = append(out, billed{attempt: attempt, actual: cost})
		}
	}
	return out
}

// billedIn is what an event of a history says; ok is false if it says nothing.
func billedIn(e events.Event) (b billed, ok bool) {
	attempt, cost, ok := ledger.Billed(e.RunID, e.Epoch, e.Data)
	return billed{attempt: attempt, actual: cost, run: e.RunID, event: e.ID}, ok && cost != nil
}

// settleEnd is End's part: what the attempt of an effect cost. One that took no
// effect cost nothing unless it says so.
func (s *Store) settleEnd(ctx context.Context, tx Tx, out ledger.Outcome) error {
	b := billed{attempt: out.Token, actual: out.Result.Cost}
	if b.actual == nil && out.Kind == ledger.NotApplied {
		b.actual = new(events.PicoUSD)
	}
	return s.settleBudgets(ctx, tx, ledger.SettledByUsage, b)
}

// settleResolved is a resolution's part: what the attempts that nobody knows
// about cost, as far as the resolution says so. What took no effect cost
// nothing; what did cost what was said, else what was reserved, which is the
// tool's price. Who gave up, or forced it while an attempt may act, does not know
// what was billed: that stays unsettled, and counts. Evidence that comes in late
// corrects it, as it does what a person settled.
func (s *Store) settleResolved(ctx context.Context, tx Tx, as attempts, state events.EffectState, cost *events.PicoUSD, quiet bool, by string) error {
	held := map[events.ID]*events.PicoUSD{} // what is held for attempts that nobody knows about; nil = no price is known
	var bs []billed
	for _, a := range as {
		if !a.unclear() {
			continue
		}
		var amount events.PicoUSD
		var was string
		err := tx.QueryRow(ctx, `SELECT amount_pico, state FROM budget_reservations WHERE attempt_id = $1 AND state <> 'settled' LIMIT 1`, a.Token).Scan(&amount, &was)
		if errors.Is(err, ErrNoRows) {
			continue // it counts against no budget, stands for another run's attempt, or a person has settled it
		}
		if err != nil {
			return fmt.Errorf("read reservation of attempt %d: %w", a.Number, err)
		}
		if held[a.Token] = &amount; was == "unpriced" {
			held[a.Token] = nil
		}
		b := billed{attempt: a.Token}
		if state == events.EffectNotApplied && quiet {
			b.actual = new(events.PicoUSD)
		}
		bs = append(bs, b)
	}
	if n := len(bs); n > 0 && state == events.EffectApplied {
		// One of them did it, and nobody knows which; an earlier one that the
		// provider may have billed as well stays unsettled.
		if bs[n-1].actual = cost; cost == nil {
			bs[n-1].actual = held[bs[n-1].attempt]
		}
	}
	return s.settleBudgets(ctx, tx, "resolution by "+by, bs...)
}

// SettleBy implements ledger.Budgets.
func (s *Store) SettleBy(ctx context.Context, attempt events.ID, actual events.PicoUSD, by string) (ledger.OpenReservation, error) {
	fail := func(err error) (ledger.OpenReservation, error) {
		return ledger.OpenReservation{}, fmt.Errorf("settle attempt %s: %w", attempt, err)
	}
	by = s.cfg.Redactor.String(by)
	if by == "" || actual < 0 || by == ledger.SettledByUsage || by == ledger.SettledByEvidence {
		return fail(errors.New("a person and an amount that is not negative are required"))
	}
	var open ledger.OpenReservation
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		var run events.RunID
		err := tx.QueryRow(ctx, `SELECT run_id FROM budget_reservations WHERE attempt_id = $1 LIMIT 1`, attempt).Scan(&run)
		if errors.Is(err, ErrNoRows) {
			return ledger.ErrNotFound
		}
		if err != nil {
			return err
		}
		r, err := lockRun(ctx, tx, run)
		if err != nil {
			return err
		}
		opens, err := readOpen(ctx, tx, `r.attempt_id = $1`, []any{attempt})
		if err != nil {
			return err
		}
		if len(opens) == 0 {
			return ledger.ErrSettled
		}
		open = opens[0]
		if !open.Child.IsZero() {
			return fmt.Errorf("it is held for run %s, which has not ended: what that leaves of it comes back by itself: %w", open.Child, ledger.ErrNotQuiescent)
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if open.State == "reserved" && r.Epoch == open.Epoch && r.LeaseUntil.After(now) {
			return fmt.Errorf("worker %q may be making it: %w", r.Worker, ledger.ErrNotQuiescent)
		}
		if err := s.settleBudgets(ctx, tx, by, billed{attempt: attempt, actual: &actual}); err != nil {
			return err
		}
		_, _, err = s.addFact(ctx, tx, run, s.cfg.IDs.Event(), events.OperatorActed{
			Verb: "settle_cost", By: by, Detail: fmt.Sprintf("%s: %s USD, %s USD were held", open.What, actual, open.Amount),
		}, r.Trace)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return open, nil
}
