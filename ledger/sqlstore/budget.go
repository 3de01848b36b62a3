package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// budgeting remembers for a second whether the ledger has any budget, so that
// one without costs its runs nothing.
type budgeting struct {
	mu  sync.Mutex
	at  time.Time
	any bool
}

// budgetsKnownFor is how long another process's first budget may go unnoticed.
const budgetsKnownFor = time.Second

func (b *budgeting) check(ctx context.Context, db DB) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.any || time.Since(b.at) < budgetsKnownFor {
		return b.any, nil
	}
	err := db.Read(ctx, func(ctx context.Context, tx Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM budgets)`).Scan(&b.any)
	})
	if err != nil {
		return false, fmt.Errorf("look for budgets: %w", err)
	}
	b.at = time.Now()
	return b.any, nil
}

// noticed is called by whoever made a budget.
func (b *budgeting) noticed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.any = true
}

// budgetsOf selects the budgets that a run counts against: those of its tenant,
// its owner, itself, and every run that it works for.
func budgetsOf(ctx context.Context, tx Tx, r ledger.Run) (where string, args []any, err error) {
	runs, err := worksFor(ctx, tx, r)
	if err != nil {
		return "", nil, err
	}
	where, args = budgetsFor(tx, r, runs)
	return where, args, nil
}

func budgetsFor(tx Tx, r ledger.Run, runs []events.RunID) (where string, args []any) {
	names := make([]string, len(runs))
	for i, id := range runs {
		names[i] = id.String()
	}
	where = ` b.tenant = $1 AND (b.kind = 'tenant' OR b.kind = 'owner' AND b.name = $2 OR b.kind = 'run' AND ` + tx.In("b.name", 3) + `) `
	return where, []any{r.Tenant, r.Owner, names}
}

// worksFor are a run, the runs that it is a child of, tries again or was forked
// from, and theirs in turn, up to the root. None of that ever changes.
func worksFor(ctx context.Context, tx Tx, r ledger.Run) ([]events.RunID, error) {
	runs := []events.RunID{r.ID}
	if r.Root != r.ID {
		runs = append(runs, r.Root)
	}
	if r.Parent.IsZero() && r.RetryOf.IsZero() && r.ForkOf.IsZero() || bug.On(bug.BudgetOfChildAlone) {
		return runs, nil
	}
	rows, err := tx.Query(ctx, `
		WITH RECURSIVE up (id, parent_id, retry_of, fork_of) AS (
			SELECT r.id, r.parent_id, r.retry_of, r.fork_of FROM runs r WHERE r.id = $1
			UNION SELECT r.id, r.parent_id, r.retry_of, r.fork_of FROM up u JOIN runs r ON r.id IN (u.parent_id, u.retry_of, u.fork_of)
		)
		SELECT id FROM up WHERE id <> $1 AND id <> $2`, r.ID, r.Root)
	if err != nil {
		return nil, fmt.Errorf("read what run %s works for: %w", r.ID, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id events.RunID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read what run %s works for: %w", r.ID, err)
		}
		runs = append(runs, id)
	}
	return runs, rows.Err()
}

// Reserve implements ledger.Budgets.
func (s *Store) Reserve(ctx context.Context, l ledger.Lease, r ledger.Reservation) (held bool, err error) {
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("reserve %s USD of run %s for %s: %w", r.Amount, l.RunID, r.What, err)
	}
	if r.Attempt.IsZero() || r.Amount < 0 || r.What == "" {
		return fail(errors.New("an attempt, what it is and an amount that is not negative are required"))
	}
	if r.RunLimit == nil {
		if some, err := s.budgets.check(ctx, s.db); err != nil || !some {
			return false, err
		}
		var n int
		err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
			run, err := scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.id = $1`, l.RunID))
			if err != nil {
				return runError("read", l.RunID, err)
			}
			where, args, err := budgetsOf(ctx, tx, run)
			if err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT count(*) FROM budgets b WHERE`+where, args...).Scan(&n)
		})
		if err != nil {
			return fail(err)
		}
		if n == 0 {
			return false, nil
		}
	}
	var refusal error // committed all the same: the run's own budget was made
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		held, refusal = false, nil
		h, err := s.lockHolder(ctx, tx, l)
		if err != nil {
			return err
		}
		if h.run.State.Ended() {
			return ledger.ErrEnded
		}
		held, err = s.reserve(ctx, tx, h, r)
		if errors.Is(err, ledger.ErrBudget) {
			refusal = err
			return nil
		}
		if err != nil {
			return err
		}
		return away(fault.Err("reserve.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("reserve.after_commit"))
	}
	if err = errors.Join(err, refusal); err != nil {
		return fail(err)
	}
	if r.RunLimit != nil {
		s.budgets.noticed()
	}
	return held, nil
}

// reserveBudget is the last gate of a Begin but for the use of an approval.
func (s *Store) reserveBudget(ctx context.Context, b *beginning) (*ledger.Verdict, error) {
	if b.in.Reserve <= 0 && !b.in.Unpriced || bug.On(bug.BudgetNotReserved) {
		return nil, nil
	}
	_, err := s.reserve(ctx, b.tx, b.h, ledger.Reservation{
		Attempt: b.in.Token, Amount: b.in.Reserve, RunLimit: b.in.RunLimit, Unpriced: b.in.Unpriced,
		What: fmt.Sprintf("%s, call %s", b.in.Tool, b.in.Call),
	})
	if over := (*ledger.BudgetError)(nil); errors.As(err, &over) {
		return refusal(ledger.DetailBudget, "%s", over.Error()), nil
	}
	return nil, err
}

// reserve holds an amount in every budget of a locked run, or in none.
func (s *Store) reserve(ctx context.Context, tx Tx, h holder, r ledger.Reservation) (held bool, err error) {
	run := h.run
	var n int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM budget_reservations WHERE attempt_id = $1`, r.Attempt).Scan(&n); err != nil {
		return false, fmt.Errorf("look for reservation %s: %w", r.Attempt, err)
	}
	if n > 0 {
		return true, nil
	}
	if r.RunLimit != nil {
		if err := s.makeRunBudget(ctx, tx, run, *r.RunLimit, "agent "+run.Agent, h.now); err != nil {
			return false, err
		}
	}
	return s.holdBack(ctx, tx, h, r, events.RunID{})
}

// holdBack is reserve's part below the look at what is held already. With a child it is
// a grant for it, which no budget of an owner or a tenant holds.
func (s *Store) holdBack(ctx context.Context, tx Tx, h holder, r ledger.Reservation, child events.RunID) (held bool, err error) {
	run := h.run
	ps, grants, err := lockPeriods(ctx, tx, run, h.now)
	if !child.IsZero() {
		ps = slices.DeleteFunc(ps, func(p lockedPeriod) bool { return p.Kind != ledger.BudgetRun })
	}
	if err != nil || len(ps) == 0 {
		return false, err
	}
	state, amount := "reserved", r.Amount
	if r.Unpriced {
		state, amount = "unpriced", 0
	}
	for _, p := range ps {
		more := amount - min(amount, grants[p.id].left) // beyond what is held for the run already
		if committed := plus(p.spent, p.held); p.limit != nil && !r.Unpriced && plus(committed, more) > *p.limit {
			return false, &ledger.BudgetError{Budget: p.BudgetKey, Limit: *p.limit, Committed: committed, Wanted: r.Amount}
		}
	}
	what := cut(s.cfg.Redactor.String(r.What))
	for _, p := range ps {
		g := grants[p.id]
		drawn := min(amount, g.left)
		if err := g.leave(ctx, tx, p.id, g.left-drawn); err != nil {
			return false, err
		}
		if err := one(tx.Exec(ctx, `UPDATE budget_periods SET held_pico = $3 WHERE budget_id = $1 AND day = $2`, p.id, p.day, plus(p.held, amount-drawn))); err != nil {
			return false, fmt.Errorf("hold in budget of %s: %w", p.BudgetKey, err)
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO budget_reservations (attempt_id, budget_id, day, run_id, epoch, what, amount_pico, state, created_at, child_id, drawn_from, drawn_pico)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			r.Attempt, p.id, p.day, run.ID, run.Epoch, what, amount, state, h.now, child, g.attempt, drawn)
		if err != nil {
			return false, fmt.Errorf("insert reservation %s: %w", r.Attempt, err)
		}
	}
	return true, nil
}

// makeRunBudget gives a run a budget unless it has one.
func (s *Store) makeRunBudget(ctx context.Context, tx Tx, run ledger.Run, limit events.PicoUSD, by string, now time.Time) error {
	id := s.cfg.IDs.Event()
	n, err := tx.Exec(ctx, `
		INSERT INTO budgets (id, tenant, kind, name, period, limit_pico, set_by, set_at) VALUES ($1, $2, 'run', $3, 'total', $4, $5, $6)
		ON CONFLICT (tenant, kind, name, period) DO NOTHING`, id, run.Tenant, run.ID.String(), limit, by, now)
	if err != nil {
		return fmt.Errorf("make budget of run %s: %w", run.ID, err)
	}
	if n == 0 {
		return nil
	}
	return addBudgetChange(ctx, tx, id, &limit, by, now)
}

// lockedPeriod is a budget that a run counts against, its amounts locked.
type lockedPeriod struct {
	ledger.BudgetKey
	id          events.ID
	limit       *events.PicoUSD
	day         string
	spent, held events.PicoUSD
}

// lockPeriods locks the budgets of a run in the order of their ids, and reads what
// they hold for the run, by their ids.
func lockPeriods(ctx context.Context, tx Tx, run ledger.Run, now time.Time) ([]lockedPeriod, map[events.ID]grant, error) {
	runs, err := worksFor(ctx, tx, run)
	if err != nil {
		return nil, nil, err
	}
	ps, err := lockBudgets(ctx, tx, run, runs, now)
	if err != nil || len(runs) == 1 { // nobody holds anything for a run that works for none
		return ps, nil, err
	}
	grants, err := innermost(ctx, tx, runs)
	return ps, grants, err
}

func lockBudgets(ctx context.Context, tx Tx, run ledger.Run, runs []events.RunID, now time.Time) ([]lockedPeriod, error) {
	where, args := budgetsFor(tx, run, runs)
	rows, err := tx.Query(ctx, `SELECT b.id, b.tenant, b.kind, b.name, b.period, b.limit_pico FROM budgets b WHERE`+where+`ORDER BY b.id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read budgets of run %s: %w", run.ID, err)
	}
	defer rows.Close()
	var ps []lockedPeriod
	for rows.Next() {
		var p lockedPeriod
		if err := rows.Scan(&p.id, &p.Tenant, &p.Kind, &p.Name, &p.Period, &p.limit); err != nil {
			return nil, fmt.Errorf("read budgets of run %s: %w", run.ID, err)
		}
		if p.Period == ledger.PerDay {
			p.day = now.UTC().Format(time.DateOnly)
		}
		ps = append(ps, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read budgets of run %s: %w", run.ID, err)
	}
	rows.Close()
	for i := range ps {
		p := &ps[i]
		const q = `SELECT spent_pico, held_pico FROM budget_periods WHERE budget_id = $1 AND day = $2 FOR UPDATE`
		err := tx.QueryRow(ctx, q, p.id, p.day).Scan(&p.spent, &p.held)
		if errors.Is(err, ErrNoRows) {
			if err = tx.Later(ctx, "make it", `INSERT INTO budget_periods (budget_id, day) VALUES ($1, $2) ON CONFLICT DO NOTHING`, p.id, p.day); err == nil {
				err = tx.QueryRow(ctx, q, p.id, p.day).Scan(&p.spent, &p.held)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lock budget of %s: %w", p.BudgetKey, err)
		}
	}
	return ps, nil
}

// plus adds amounts; what does not fit stays at the most.
func plus(a, b events.PicoUSD) events.PicoUSD {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// unsettle is a claim's part: what earlier holders of runs reserved, nobody will
// report on. It counts as before, so no budget is locked.
func unsettle(ctx context.Context, tx Tx, runs []events.RunID) error {
	return tx.Later(ctx, "unsettle reservations of earlier holders", `
		UPDATE budget_reservations SET state = 'unsettled'
		WHERE state = 'reserved' AND child_id IS NULL AND `+tx.InIDs("run_id", 1)+` AND epoch < (SELECT r.epoch FROM runs r WHERE r.id = budget_reservations.run_id)`, runs)
}
