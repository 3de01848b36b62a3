package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// pick locks up to r.Limit runs that somebody has to act for. What has begun
// comes before what has not, so that the queue cannot starve it.
func (s *Store) pick(ctx context.Context, tx Tx, r ledger.ClaimRequest) ([]candidate, shares, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.refuseRolledBack(ctx, tx, now); err != nil {
		return nil, nil, err
	}
	out, err := s.pickBegun(ctx, tx, r, now)
	if err != nil {
		return nil, nil, err
	}
	var had shares
	if len(out) < r.Limit {
		var fresh []candidate
		if fresh, had, err = pickNew(ctx, tx, r, now, out); err != nil {
			return nil, nil, fmt.Errorf("look for new runs: %w", err)
		}
		out = append(out, fresh...)
	}
	// Whoever locks the folds of several runs does it in this order.
	slices.SortFunc(out, func(a, b candidate) int { return bytes.Compare(a.run.ID[:], b.run.ID[:]) })
	return out, had, nil
}

// pickBegun locks runs that were held before, are to be cancelled, or have
// ended and got facts.
func (s *Store) pickBegun(ctx context.Context, tx Tx, r ledger.ClaimRequest, now time.Time) ([]candidate, error) {
	any, err := anyBegun(ctx, tx, r, now)
	if err != nil {
		return nil, err
	}
	var out []candidate
	for i, kind := range begunKinds(tx, r, now) {
		if len(out) == r.Limit {
			break
		}
		if !any[i] {
			continue
		}
		c := &condition{}
		c.sql = kind(c)
		got, err := lockCandidates(ctx, tx, c, "r.priority DESC, r.due_at, r.id", r.Limit-len(out))
		if err != nil {
			return nil, err
		}
		for _, g := range got {
			if slices.ContainsFunc(out, func(o candidate) bool { return o.run.ID == g.run.ID }) {
				continue
			}
			if g.run.State == ledger.Running && s.cfg.MaxCrashes > 0 && g.crashes >= s.cfg.MaxCrashes {
				if err := s.holdCrashing(ctx, tx, g, now); err != nil {
					return nil, err
				}
				continue
			}
			out = append(out, g)
		}
	}
	return out, nil
}

// condition is a WHERE clause with its arguments.
type condition struct {
	sql  string
	args []any
}

func (c *condition) arg(v any) int {
	c.args = append(c.args, v)
	return len(c.args)
}

// at is v as a parameter.
func (c *condition) at(v any) string { return fmt.Sprintf("$%d", c.arg(v)) }

func capable(tx Tx, r ledger.ClaimRequest, c *condition) string {
	return ` AND ` + tx.Subset("r.requires", c.arg(set(r.Capabilities)))
}

// begunKinds lists, first things first, which runs that have begun may be
// claimed at now. A run that a person holds back is left alone, but to be
// cancelled or, when its holder is gone, to be parked.
func begunKinds(tx Tx, r ledger.ClaimRequest, now time.Time) []func(c *condition) string {
	const hasFacts = ` AND r.id IN (SELECT f.run_id FROM facts f)`
	in := func(c *condition) string {
		if len(r.Queues) == 0 {
			return ""
		}
		return ` AND ` + tx.In("r.queue", c.arg(r.Queues))
	}
	return []func(c *condition) string{
		func(c *condition) string { // the holder is gone
			return `r.state = 'running' AND r.lease_until <= ` + c.at(now) + ` AND (r.not_before IS NULL OR r.not_before <= ` + c.at(now) + `)` + capable(tx, r, c) + in(c)
		},
		func(c *condition) string { // ending a run takes none of its tools
			return `r.state = 'cancelling' AND (r.lease_until IS NULL OR r.lease_until <= ` + c.at(now) + `)
				AND (r.not_before IS NULL OR r.not_before <= ` + c.at(now) + `)` + in(c)
		},
		func(c *condition) string { // whoever comes by appends what came in
			return `r.state = 'parked' AND r.held_at IS NULL` + hasFacts + in(c)
		},
		func(c *condition) string { // its time has come
			return `r.state = 'parked' AND r.held_at IS NULL AND r.wake_at <= ` + c.at(now) + capable(tx, r, c) + in(c)
		},
		func(c *condition) string { // here is the worker it waited for
			// With a time set, a worker that has the capabilities could not go on
			// all the same: it would be claimed again and again.
			return `r.state = 'parked' AND r.held_at IS NULL AND r.park_reason = 'no_capable_worker' AND r.wake_at IS NULL` + capable(tx, r, c) + in(c)
		},
		func(c *condition) string { // settle
			n := c.at(now)
			return `r.state IN ('finished', 'failed', 'cancelled') AND (r.lease_until IS NULL OR r.lease_until <= ` + n + `)
				AND (r.not_before IS NULL OR r.not_before <= ` + n + `)` + hasFacts + in(c)
		},
		func(c *condition) string { // handed over
			return `r.state = 'queued' AND r.started_at IS NOT NULL AND r.held_at IS NULL AND r.due_at <= ` + c.at(now) + capable(tx, r, c) + in(c)
		},
	}
}

// anyBegun looks, without a lock and in one statement, which kinds there are:
// mostly none.
func anyBegun(ctx context.Context, tx Tx, r ledger.ClaimRequest, now time.Time) ([]bool, error) {
	kinds := begunKinds(tx, r, now)
	c := &condition{}
	exists := make([]string, len(kinds))
	any, dest := make([]bool, len(kinds)), make([]any, len(kinds))
	for i, kind := range kinds {
		exists[i] = `EXISTS (SELECT 1 FROM runs r WHERE ` + kind(c) + `)`
		dest[i] = &any[i]
	}
	if err := tx.QueryRow(ctx, `SELECT `+strings.Join(exists, ", "), c.args...).Scan(dest...); err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	return any, nil
}

// set is never nil: no capability is the empty set, not NULL.
func set(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func lockCandidates(ctx context.Context, tx Tx, where *condition, order string, limit int) ([]candidate, error) {
	q := `SELECT ` + runColumns + `, r.clean, r.idle_claims, r.crashes FROM runs r WHERE ` + where.sql +
		fmt.Sprintf(` ORDER BY %s LIMIT $%d FOR NO KEY UPDATE OF r SKIP LOCKED`, order, where.arg(limit))
	rows, err := tx.Query(ctx, q, where.args...)
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	defer rows.Close()
	var out []candidate
	for rows.Next() {
		var c candidate
		if c.run, err = scanRun(rows, &c.clean, &c.idle, &c.crashes); err != nil {
			return nil, fmt.Errorf("look for runs: %w", err)
		}
		out = append(out, c)
	}
	return out, rows.Err()
}
