package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// Kinds of operator_acts.
const (
	actQueue    = "queue"
	actSchedule = "schedule"
	actLedger   = "ledger"
)

// LimitQueue implements ledger.Queues.
func (s *Store) LimitQueue(ctx context.Context, queue string, l ledger.QueueLimit, by string) error {
	fail := func(err error) error { return fmt.Errorf("limit queue %q: %w", queue, err) }
	switch {
	case queue == "":
		return fail(errors.New("no queue"))
	case by == "":
		return fail(errors.New("a limit names who sets it"))
	case l.MaxRunning < 0 || l.MaxPerKey < 0 || l.Rate < 0 || l.Per < 0:
		return fail(errors.New("a limit is a number from 0 (none) up"))
	case (l.Rate > 0) != (l.Per > 0):
		return fail(errors.New("a rate is a number of starts and the time they are counted in, such as 10/1m"))
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO queue_limits (queue, max_running, max_per_key, rate_count, rate_micros) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (queue) DO UPDATE SET max_running = $2, max_per_key = $3, rate_count = $4, rate_micros = $5`,
			queue, l.MaxRunning, l.MaxPerKey, l.Rate, l.Per.Microseconds())
		if err != nil {
			return err
		}
		if l.Rate == 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM queue_starts WHERE queue = $1`, queue); err != nil {
				return err
			}
		}
		detail := fmt.Sprintf("max running %d, max per key %d, rate %d/%s", l.MaxRunning, l.MaxPerKey, l.Rate, l.Per)
		return s.act(ctx, tx, actQueue, queue, "limit", by, detail)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// PauseQueue implements ledger.Queues.
func (s *Store) PauseQueue(ctx context.Context, queue, by, reason string) (p ledger.Pause, done bool, err error) {
	if queue == "" || by == "" || reason == "" {
		return p, false, fmt.Errorf("pause queue %q: queue, who and why are required", queue)
	}
	by, reason = s.cfg.Redactor.String(by), s.cfg.Redactor.String(reason)
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		p, done = ledger.Pause{}, false
		if _, err := tx.Exec(ctx, `INSERT INTO queue_limits (queue) VALUES ($1) ON CONFLICT (queue) DO NOTHING`, queue); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT paused_at, paused_by, paused_reason FROM queue_limits WHERE queue = $1 FOR UPDATE`, queue).Scan(&p.At, &p.By, &p.Reason)
		if err != nil || !p.At.IsZero() {
			return err // the first pause stands
		}
		if p.At, err = tx.Now(ctx); err != nil {
			return err
		}
		p.By, p.Reason, done = by, reason, true
		_, err = tx.Exec(ctx, `UPDATE queue_limits SET paused_at = $2, paused_by = $3, paused_reason = $4 WHERE queue = $1`, queue, p.At, p.By, p.Reason)
		if err != nil {
			return err
		}
		return s.act(ctx, tx, actQueue, queue, "pause", by, reason)
	})
	if err != nil {
		return ledger.Pause{}, false, fmt.Errorf("pause queue %q: %w", queue, err)
	}
	return p, done, nil
}

// ResumeQueue implements ledger.Queues.
func (s *Store) ResumeQueue(ctx context.Context, queue, by, reason string) error {
	by, reason = s.cfg.Redactor.String(by), s.cfg.Redactor.String(reason)
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		n, err := tx.Exec(ctx, `UPDATE queue_limits SET paused_at = NULL, paused_by = '', paused_reason = '' WHERE queue = $1 AND paused_at IS NOT NULL`, queue)
		switch {
		case err != nil:
			return err
		case n == 0:
			return ledger.ErrNotPaused
		}
		return s.act(ctx, tx, actQueue, queue, "resume", by, reason)
	})
	if err != nil {
		return fmt.Errorf("resume queue %q: %w", queue, err)
	}
	return nil
}

// act records what a person did to something that has no history of its own.
func (s *Store) act(ctx context.Context, tx Tx, kind, name, verb, by, detail string) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO operator_acts (kind, name, verb, by_whom, detail, at) VALUES ($1, $2, $3, $4, $5, $6)`,
		kind, name, verb, s.cfg.Redactor.String(by), s.cfg.Redactor.String(detail), now)
	if err != nil {
		return fmt.Errorf("record %s of %s %s: %w", verb, kind, name, err)
	}
	return nil
}

// Acts implements ledger.Queues.
func (s *Store) Acts(ctx context.Context, kind, name string, limit int) (acts []ledger.Act, err error) {
	if limit <= 0 {
		limit = 100
	}
	q, args := `SELECT kind, name, verb, by_whom, detail, at FROM operator_acts WHERE kind = $1`, []any{kind, limit}
	if name != "" {
		q, args = q+` AND name = $3`, append(args, name)
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		rows, err := tx.Query(ctx, q+` ORDER BY id DESC LIMIT $2`, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var a ledger.Act
			if err := rows.Scan(&a.Kind, &a.Name, &a.Verb, &a.By, &a.Detail, &a.At); err != nil {
				return err
			}
			acts = append(acts, a)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list acts on %s %q: %w", kind, name, err)
	}
	return acts, nil
}

// QueueStats implements ledger.Queues. Each number is counted through an index
// of runs that have not ended, or are dead: what has ended well is never read.
func (s *Store) QueueStats(ctx context.Context, name string) (stats []ledger.QueueStats, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		byQueue := map[string]*ledger.QueueStats{}
		at := func(queue string) *ledger.QueueStats {
			if byQueue[queue] == nil {
				byQueue[queue] = &ledger.QueueStats{Queue: queue}
			}
			return byQueue[queue]
		}
		if name != "" {
			at(name)
		}
		for _, f := range []func(context.Context, Tx, string, time.Time, func(string) *ledger.QueueStats) error{readLimits, countQueued, countHeld, countBehind, countLeases, countParked, countDead} {
			if err := f(ctx, tx, name, now, at); err != nil {
				return err
			}
		}
		if err := countStarts(ctx, tx, now, byQueue); err != nil {
			return err
		}
		stats = sortedStats(byQueue)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	return stats, nil
}
