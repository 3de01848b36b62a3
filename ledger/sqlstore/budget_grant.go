package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
)

// A grant is what a budget holds for a child run until the child has ended: a
// reservation with a child, whose amount is what is left of it. Whatever the child and
// the runs below it reserve in that budget is drawn from it, so that nothing is held
// twice and nobody else spends it. For each grant, always:
//
//	amount + everything drawn from it = what was granted
//
// The row of budget_periods that a grant belongs to is its lock.

// grant is an open one, its budget locked.
type grant struct {
	attempt events.ID // zero = there is none
	left    events.PicoUSD
	from    events.ID // the grant that it is drawn from itself
	drawn   events.PicoUSD
}

// innermost reads of each budget the grant that a run with that chain draws from:
// of all that are held for runs it works for, the one that is drawn from the others.
func innermost(ctx context.Context, tx Tx, chain []events.RunID) (map[events.ID]grant, error) {
	if bug.On(bug.BudgetGrantNotDrawn) {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT budget_id, attempt_id, amount_pico, drawn_from, drawn_pico FROM budget_reservations
		WHERE child_id IS NOT NULL AND state = 'reserved' AND `+tx.InIDs("child_id", 1), chain)
	if err != nil {
		return nil, fmt.Errorf("read what is held for children: %w", err)
	}
	defer rows.Close()
	all := map[events.ID][]grant{}
	for rows.Next() {
		var budget events.ID
		var g grant
		if err := rows.Scan(&budget, &g.attempt, &g.left, &g.from, &g.drawn); err != nil {
			return nil, fmt.Errorf("read what is held for children: %w", err)
		}
		all[budget] = append(all[budget], g)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read what is held for children: %w", err)
	}
	out := make(map[events.ID]grant, len(all))
	for budget, gs := range all {
		outer := map[events.ID]bool{}
		for _, g := range gs {
			outer[g.from] = true
		}
		for _, g := range gs {
			if !outer[g.attempt] {
				out[budget] = g
			}
		}
	}
	return out, nil
}

// readGrant reads a grant of a locked budget; the zero one if it is not open.
func readGrant(ctx context.Context, tx Tx, attempt, budget events.ID) (g grant, err error) {
	if attempt.IsZero() {
		return grant{}, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT attempt_id, amount_pico, drawn_from, drawn_pico FROM budget_reservations
		WHERE attempt_id = $1 AND budget_id = $2 AND child_id IS NOT NULL AND state = 'reserved'`, attempt, budget).
		Scan(&g.attempt, &g.left, &g.from, &g.drawn)
	if errors.Is(err, ErrNoRows) {
		return grant{}, nil
	}
	if err != nil {
		return grant{}, fmt.Errorf("read what is held for a child: %w", err)
	}
	return g, nil
}

// leave makes left what is left of g.
func (g grant) leave(ctx context.Context, tx Tx, budget events.ID, left events.PicoUSD) error {
	if g.attempt.IsZero() || left == g.left {
		return nil
	}
	err := one(tx.Exec(ctx, `UPDATE budget_reservations SET amount_pico = $3 WHERE attempt_id = $1 AND budget_id = $2`, g.attempt, budget, left))
	if err != nil {
		return fmt.Errorf("draw from what is held for a child: %w", err)
	}
	return nil
}

// grantChild holds a child's budget in the budgets of the locked run that starts it
// and of those that the run works for, unless the child is there already. Owners and
// tenants are left out: they count what is spent.
func (s *Store) grantChild(ctx context.Context, tx Tx, at holder, child events.RunID, in ledger.Submission, h ledger.Handoff) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM runs WHERE tenant = $1 AND client_key = $2`, in.Tenant, in.ClientKey).Scan(&n); err != nil {
		return fmt.Errorf("look for child: %w", err)
	}
	if n > 0 {
		return nil
	}
	_, err := s.holdBack(ctx, tx, at, ledger.Reservation{
		Attempt: events.DerivedID(h.Token, "grant"), Amount: *in.Budget,
		What: fmt.Sprintf("agent %s, call %s, run %s", in.Agent, h.Call, child),
	}, child)
	return err
}

// returnGrants gives back what is left of what is held for a run that has ended, its
// row locked. What it has spent, and what nobody knows the cost of, counts on.
func (s *Store) returnGrants(ctx context.Context, tx Tx, child events.RunID, now time.Time) error {
	if bug.On(bug.BudgetGrantKept) {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT budget_id, attempt_id FROM budget_reservations WHERE child_id = $1 AND state = 'reserved' ORDER BY budget_id`, child)
	if err != nil {
		return fmt.Errorf("read what is held for run %s: %w", child, err)
	}
	defer rows.Close()
	type key struct{ budget, attempt events.ID }
	var keys []key
	for rows.Next() {
		var k key
		if err := rows.Scan(&k.budget, &k.attempt); err != nil {
			return fmt.Errorf("read what is held for run %s: %w", child, err)
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read what is held for run %s: %w", child, err)
	}
	rows.Close()
	for _, k := range keys {
		if err := returnGrant(ctx, tx, k.budget, k.attempt, now); err != nil {
			return fmt.Errorf("return what is held for run %s: %w", child, err)
		}
	}
	return nil
}

func returnGrant(ctx context.Context, tx Tx, budget, attempt events.ID, now time.Time) error {
	var held events.PicoUSD
	err := tx.QueryRow(ctx, `SELECT held_pico FROM budget_periods WHERE budget_id = $1 AND day = '' FOR UPDATE`, budget).Scan(&held)
	if err != nil {
		return fmt.Errorf("lock budget: %w", err)
	}
	g, err := readGrant(ctx, tx, attempt, budget)
	if err != nil || g.attempt.IsZero() {
		return err
	}
	outer, err := readGrant(ctx, tx, g.from, budget)
	if err != nil {
		return err
	}
	back, err := passOn(ctx, tx, budget, g, outer)
	if err != nil {
		return err
	}
	if err := outer.leave(ctx, tx, budget, outer.left+back); err != nil {
		return err
	}
	if err := one(tx.Exec(ctx, `UPDATE budget_periods SET held_pico = $2 WHERE budget_id = $1 AND day = ''`, budget, held-g.left+back)); err != nil {
		return fmt.Errorf("store budget: %w", err)
	}
	return one(tx.Exec(ctx, `
		UPDATE budget_reservations SET state = 'settled', actual_pico = 0, drawn_pico = 0, settled_by = $3, settled_at = $4
		WHERE attempt_id = $1 AND budget_id = $2`, attempt, budget, ledger.SettledByReturn, now))
}

// passOn has what is drawn from a grant drawn from the one that it was drawn from
// itself, if there is one, and returns what goes back to that.
func passOn(ctx context.Context, tx Tx, budget events.ID, g, outer grant) (back events.PicoUSD, err error) {
	if outer.attempt.IsZero() {
		_, err = tx.Exec(ctx, `UPDATE budget_reservations SET drawn_from = NULL, drawn_pico = 0 WHERE drawn_from = $1 AND budget_id = $2`, g.attempt, budget)
		return 0, err
	}
	type row struct {
		attempt events.ID
		drawn   events.PicoUSD
	}
	rows, err := tx.Query(ctx, `SELECT attempt_id, drawn_pico FROM budget_reservations WHERE drawn_from = $1 AND budget_id = $2 ORDER BY attempt_id`, g.attempt, budget)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var below []row
	var drawn events.PicoUSD
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.attempt, &r.drawn); err != nil {
			return 0, err
		}
		below, drawn = append(below, r), plus(drawn, r.drawn)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	rows.Close()
	if drawn > g.drawn { // somebody has raised a budget in the middle: not all of it came from further out
		left := g.drawn
		for _, r := range below {
			part := min(r.drawn, left)
			left -= part
			if part == r.drawn {
				continue
			}
			if _, err := tx.Exec(ctx, `UPDATE budget_reservations SET drawn_pico = $3 WHERE attempt_id = $1 AND budget_id = $2`, r.attempt, budget, part); err != nil {
				return 0, err
			}
		}
		drawn = g.drawn
	}
	_, err = tx.Exec(ctx, `UPDATE budget_reservations SET drawn_from = $3 WHERE drawn_from = $1 AND budget_id = $2`, g.attempt, budget, outer.attempt)
	return g.drawn - drawn, err
}

// passGrants is the end of a run's part, its row locked: what is held for it is held
// for the run that tries it again, or goes back.
func (s *Store) passGrants(ctx context.Context, tx Tx, run events.RunID, now time.Time) error {
	var again events.RunID
	if err := tx.QueryRow(ctx, `SELECT successor FROM runs WHERE id = $1`, run).Scan(&again); err != nil {
		return fmt.Errorf("read who tries run %s again: %w", run, err)
	}
	if again.IsZero() {
		return s.returnGrants(ctx, tx, run, now)
	}
	_, err := tx.Exec(ctx, `UPDATE budget_reservations SET child_id = $2 WHERE child_id = $1 AND state = 'reserved'`, run, again)
	if err != nil {
		return fmt.Errorf("hand what is held for run %s on to run %s: %w", run, again, err)
	}
	return nil
}
