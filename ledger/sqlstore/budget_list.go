package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// SetBudget implements ledger.Budgets. The limit of a run is a fact of that run.
func (s *Store) SetBudget(ctx context.Context, c ledger.BudgetChange) (ledger.Budget, error) {
	by := s.cfg.Redactor.String(c.By)
	err := c.Check()
	if err == nil && (by == "" || c.Limit != nil && *c.Limit < 0) {
		err = errors.New("who sets it, and a limit that is not negative, are required")
	}
	if err != nil {
		return ledger.Budget{}, fmt.Errorf("set budget: %w", err)
	}
	var b ledger.Budget
	fresh := s.cfg.IDs.Event()
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if c.Kind == ledger.BudgetRun {
			if err := s.tellRun(ctx, tx, c, by); err != nil {
				return err
			}
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO budgets (id, tenant, kind, name, period, limit_pico, set_by, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (tenant, kind, name, period) DO UPDATE SET limit_pico = excluded.limit_pico, set_by = excluded.set_by, set_at = excluded.set_at`,
			fresh, c.Tenant, c.Kind, c.Name, c.Period, c.Limit, by, now)
		if err != nil {
			return err
		}
		var id events.ID
		err = tx.QueryRow(ctx, `SELECT id FROM budgets WHERE tenant = $1 AND kind = $2 AND name = $3 AND period = $4`, c.Tenant, c.Kind, c.Name, c.Period).Scan(&id)
		if err != nil {
			return err
		}
		if err := addBudgetChange(ctx, tx, id, c.Limit, by, now); err != nil {
			return err
		}
		bs, err := readBudgets(ctx, tx, `b.id = $2`, []any{id})
		if err == nil && len(bs) != 1 {
			err = fmt.Errorf("%d budgets read back", len(bs))
		}
		if err == nil {
			b = bs[0]
		}
		return err
	})
	if err != nil {
		return ledger.Budget{}, fmt.Errorf("set budget of %s: %w", c.BudgetKey, err)
	}
	s.budgets.noticed()
	return b, nil
}

func (s *Store) tellRun(ctx context.Context, tx Tx, c ledger.BudgetChange, by string) error {
	id, err := events.ParseRunID(c.Name)
	if err != nil {
		return err
	}
	run, err := lockRun(ctx, tx, id)
	if err != nil {
		return err
	}
	if run.Tenant != c.Tenant {
		return fmt.Errorf("run %s is of another tenant: %w", id, ledger.ErrNotFound)
	}
	detail := "no limit"
	if c.Limit != nil {
		detail = fmt.Sprintf("limit %s USD", *c.Limit)
	}
	_, _, err = s.addFact(ctx, tx, id, s.cfg.IDs.Event(), events.OperatorActed{Verb: "set_budget", By: by, Detail: detail}, run.Trace)
	return err
}

func addBudgetChange(ctx context.Context, tx Tx, id events.ID, limit *events.PicoUSD, by string, now time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO budget_changes (budget_id, limit_pico, set_by, set_at) VALUES ($1, $2, $3, $4)`, id, limit, by, now)
	if err != nil {
		return fmt.Errorf("keep who set budget %s: %w", id, err)
	}
	return nil
}

// budgetWhere turns a filter into a condition on budgets b.
func budgetWhere(f ledger.BudgetFilter, c *condition) {
	c.sql = "1 = 1"
	for _, k := range []struct{ column, value string }{{"tenant", f.Tenant}, {"kind", string(f.Kind)}, {"name", f.Name}} {
		if k.value != "" {
			c.sql += fmt.Sprintf(" AND b.%s = $%d", k.column, c.arg(k.value))
		}
	}
	if a := f.After; a != (ledger.BudgetKey{}) {
		c.sql += fmt.Sprintf(" AND (b.tenant, b.kind, b.name, b.period) > ($%d, $%d, $%d, $%d)", c.arg(a.Tenant), c.arg(a.Kind), c.arg(a.Name), c.arg(a.Period))
	}
}

// listed is the limit of a list.
func listed(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// Budgets implements ledger.Budgets.
func (s *Store) Budgets(ctx context.Context, f ledger.BudgetFilter) (bs []ledger.Budget, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		c := condition{args: []any{""}} // $1 is the day
		budgetWhere(f, &c)
		c.sql += fmt.Sprintf(" ORDER BY b.tenant, b.kind, b.name, b.period LIMIT $%d", c.arg(listed(f.Limit)))
		bs, err = readBudgets(ctx, tx, c.sql, c.args[1:])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	return bs, nil
}

// readBudgets reads budgets with what counts against them now; args are those of
// where, from $2 on.
func readBudgets(ctx context.Context, tx Tx, where string, args []any) ([]ledger.Budget, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	today := now.UTC().Format(time.DateOnly)
	open := func(what, state string) string {
		return `(SELECT CAST(coalesce(` + what + `, 0) AS bigint) FROM budget_reservations r
			WHERE r.budget_id = b.id AND r.day = CASE WHEN b.period = 'day' THEN $1 ELSE '' END AND r.state = '` + state + `' AND r.state <> 'settled')`
	}
	rows, err := tx.Query(ctx, `
		SELECT b.tenant, b.kind, b.name, b.period, b.limit_pico, b.set_by, b.set_at, CAST(coalesce(p.spent_pico, 0) AS bigint),
			`+open("sum(r.amount_pico)", "reserved")+`, `+open("sum(r.amount_pico)", "unsettled")+`, `+open("count(*)", "unpriced")+`
		FROM budgets b LEFT JOIN budget_periods p ON p.budget_id = b.id AND p.day = CASE WHEN b.period = 'day' THEN $1 ELSE '' END
		WHERE `+where, append([]any{today}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ledger.Budget
	for rows.Next() {
		var b ledger.Budget
		err := rows.Scan(&b.Tenant, &b.Kind, &b.Name, &b.Period, &b.Limit, &b.SetBy, &b.SetAt, &b.Spent, &b.Reserved, &b.Unsettled, &b.Unpriced)
		if err != nil {
			return nil, err
		}
		if b.Period == ledger.PerDay {
			b.Day = today
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// OpenReservations implements ledger.Budgets.
func (s *Store) OpenReservations(ctx context.Context, f ledger.BudgetFilter) (out []ledger.OpenReservation, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		var c condition
		budgetWhere(f, &c)
		out, err = readOpen(ctx, tx, c.sql, c.args)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list open reservations: %w", err)
	}
	return out[:min(len(out), listed(f.Limit))], nil
}

// readOpen reads attempts that are not settled, oldest first.
func readOpen(ctx context.Context, tx Tx, where string, args []any) ([]ledger.OpenReservation, error) {
	rows, err := tx.Query(ctx, `
		SELECT r.attempt_id, r.run_id, r.epoch, r.what, r.amount_pico, r.state, r.created_at, r.child_id, b.tenant, b.kind, b.name, b.period
		FROM budget_reservations r JOIN budgets b ON b.id = r.budget_id
		WHERE r.state <> 'settled' AND `+where+` ORDER BY r.created_at, r.attempt_id, b.kind, b.name, b.period`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ledger.OpenReservation
	for rows.Next() {
		var o ledger.OpenReservation
		var k ledger.BudgetKey
		if err := rows.Scan(&o.Attempt, &o.Run, &o.Epoch, &o.What, &o.Amount, &o.State, &o.At, &o.Child, &k.Tenant, &k.Kind, &k.Name, &k.Period); err != nil {
			return nil, err
		}
		if n := len(out); n == 0 || out[n-1].Attempt != o.Attempt {
			out = append(out, o)
		}
		last := &out[len(out)-1]
		last.Budgets = append(last.Budgets, k)
	}
	return out, rows.Err()
}
