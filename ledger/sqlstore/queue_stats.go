package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// statsOf gives the statistics of a queue, made when it is asked for first.
type statsOf = func(queue string) *ledger.QueueStats

func sortedStats(byQueue map[string]*ledger.QueueStats) []ledger.QueueStats {
	out := make([]ledger.QueueStats, 0, len(byQueue))
	for _, k := range slices.Sorted(maps.Keys(byQueue)) {
		out = append(out, *byQueue[k])
	}
	return out
}

// eachQueue runs a query whose first column is a queue; $1 is its name, empty for all.
func eachQueue(ctx context.Context, tx Tx, what, q string, args []any, scan func(rows Rows) error) error {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return rows.Err()
}

// ofQueue is the condition for one queue, or none.
func ofQueue(name string, args []any) (string, []any) {
	if name == "" {
		return "", args
	}
	args = append(args, name)
	return fmt.Sprintf(` AND r.queue = $%d`, len(args)), args
}

func readLimits(ctx context.Context, tx Tx, name string, _ time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "read limits", `
		SELECT r.queue, r.max_running, r.max_per_key, r.rate_count, r.rate_micros, r.paused_at, r.paused_by, r.paused_reason
		FROM queue_limits r WHERE true`+where, args, func(rows Rows) error {
		var queue string
		var l ledger.QueueLimit
		var micros int64
		var p ledger.Pause
		if err := rows.Scan(&queue, &l.MaxRunning, &l.MaxPerKey, &l.Rate, &micros, &p.At, &p.By, &p.Reason); err != nil {
			return err
		}
		l.Per = time.Duration(micros) * time.Microsecond
		at(queue).Limit, at(queue).Paused = l, p
		return nil
	})
}

func countQueued(ctx context.Context, tx Tx, name string, now time.Time, at statsOf) error {
	where, args := ofQueue(name, []any{now})
	return eachQueue(ctx, tx, "count queued runs", `
		SELECT r.queue, count(*), sum(CASE WHEN r.due_at <= $1 THEN 1 ELSE 0 END), min(r.due_at),
			count(DISTINCT CASE WHEN r.due_at <= $1 THEN r.tenant END)
		FROM runs r WHERE `+queuedRow+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var oldest time.Time
		var queued, due, tenants int64
		if err := rows.Scan(&queue, &queued, &due, &oldest, &tenants); err != nil {
			return err
		}
		st := at(queue)
		st.Queued, st.Due, st.Tenants = queued, due, tenants
		if !oldest.After(now) {
			st.OldestDue = oldest
		}
		return nil
	})
}

func countHeld(ctx context.Context, tx Tx, name string, _ time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "count held runs", `SELECT r.queue, count(*) FROM runs r WHERE r.held_at IS NOT NULL`+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var n int64
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		at(queue).Held = n
		return nil
	})
}

func countBehind(ctx context.Context, tx Tx, name string, _ time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "count runs behind others", `SELECT r.queue, count(*) FROM runs r WHERE r.behind_at IS NOT NULL AND r.ended_at IS NULL`+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var n int64
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		at(queue).Behind = n
		return nil
	})
}

func countLeases(ctx context.Context, tx Tx, name string, now time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "count leases", `
		SELECT r.queue, count(*), min(r.started_at), min(r.lease_until) FROM runs r
		WHERE r.lease_until IS NOT NULL AND r.state IN ('running', 'cancelling')`+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var n int64
		var started, until time.Time
		if err := rows.Scan(&queue, &n, &started, &until); err != nil {
			return err
		}
		st := at(queue)
		st.Running, st.OldestLease = n, started
		if !until.After(now) {
			st.LapsedLease = until
		}
		return nil
	})
}

func countParked(ctx context.Context, tx Tx, name string, _ time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "count parked runs", `SELECT r.queue, count(*) FROM runs r WHERE r.state = 'parked'`+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var n int64
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		at(queue).Parked = n
		return nil
	})
}

func countDead(ctx context.Context, tx Tx, name string, _ time.Time, at statsOf) error {
	where, args := ofQueue(name, nil)
	return eachQueue(ctx, tx, "count dead runs", `SELECT r.queue, count(*) FROM runs r WHERE r.dead_at IS NOT NULL`+where+` GROUP BY r.queue`, args, func(rows Rows) error {
		var queue string
		var n int64
		if err := rows.Scan(&queue, &n); err != nil {
			return err
		}
		at(queue).Dead = n
		return nil
	})
}

// countStarts fills in how much of the queues' rates is used.
func countStarts(ctx context.Context, tx Tx, now time.Time, byQueue map[string]*ledger.QueueStats) error {
	for name, st := range byQueue {
		l := st.Limit
		if l.Rate == 0 {
			continue
		}
		n, first, err := startedSince(ctx, tx, name, now.Add(-l.Per))
		if err != nil {
			return err
		}
		st.Started = int64(n)
		if n >= l.Rate {
			st.NextStart = first.Add(l.Per)
		}
	}
	return nil
}
