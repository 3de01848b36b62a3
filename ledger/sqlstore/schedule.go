package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// scheduleColumns are what scanSchedule reads, of table schedules under the name s.
const scheduleColumns = `s.tenant, s.name, s.spec, s.timezone, s.missed, s.catch_up, s.overlap, s.queue, s.agent, s.owner, s.input, s.input_mac,
	s.requires, s.priority, s.concurrency_key, s.max_attempts, s.budget_pico, s.next_at, s.last_at, s.last_run, s.skipped, s.skipped_at, s.skipped_why,
	s.paused_at, s.paused_by, s.paused_reason, s.error, s.error_at, s.created_by, s.updated_by, s.created_at, s.updated_at`

// scanSchedule reads scheduleColumns. What the input holds is looked through
// again: more secrets may be known than when it was stored.
func (s *Store) scanSchedule(row Row) (c ledger.ScheduleState, err error) {
	r := &c.Run
	var input json.RawMessage
	err = row.Scan(&r.Tenant, &c.Name, &c.Cron, &c.TimeZone, &c.Missed, &c.CatchUp, &c.Overlap, &r.Queue, &r.Agent, &r.Owner, &input, &r.InputMAC,
		&r.Requires, &r.Priority, &r.ConcurrencyKey, &r.MaxAttempts, &r.Budget, &c.NextFire, &c.LastFire, &c.LastRun, &c.Skipped, &c.SkippedAt, &c.SkippedWhy,
		&c.Paused.At, &c.Paused.By, &c.Paused.Reason, &c.Error, &c.ErrorAt, &c.CreatedBy, &c.UpdatedBy, &c.CreatedAt, &c.UpdatedAt)
	if err != nil {
		return c, err
	}
	if r.Input, err = s.cfg.Redactor.JSON(input); err != nil {
		return c, fmt.Errorf("input of schedule %s: %w", c.ID(), err)
	}
	return c, nil
}

// lockSchedule locks a schedule's row and returns it, or ledger.ErrNotFound.
func (s *Store) lockSchedule(ctx context.Context, tx Tx, id ledger.ScheduleID) (ledger.ScheduleState, error) {
	c, err := s.scanSchedule(tx.QueryRow(ctx, `SELECT `+scheduleColumns+` FROM schedules s WHERE s.tenant = $1 AND s.name = $2 FOR UPDATE`, id.Tenant, id.Name))
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	return c, err
}

// PutSchedule implements ledger.Schedules.
func (s *Store) PutSchedule(ctx context.Context, c ledger.Schedule, by string) (state ledger.ScheduleState, err error) {
	fail := func(err error) (ledger.ScheduleState, error) {
		return ledger.ScheduleState{}, fmt.Errorf("put schedule %s: %w", c.ID(), err)
	}
	spec, err := c.Check()
	if err != nil {
		return fail(err)
	}
	in := c.Run
	in.ClientKey = "schedule"
	if err := checkSubmission(in); err != nil {
		return fail(fmt.Errorf("%w: %w", ledger.ErrInvalidSchedule, err))
	}
	if by == "" {
		return fail(errors.New("a schedule names who makes it"))
	}
	by = s.cfg.Redactor.String(by)
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		old, err := s.lockSchedule(ctx, tx, c.ID())
		fresh := errors.Is(err, ledger.ErrNotFound)
		if err != nil && !fresh {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		next := old.NextFire
		if fresh || old.Cron != c.Cron || old.TimeZone != c.TimeZone || next.IsZero() {
			next = spec.Next(now)
		}
		r := c.Run
		_, err = tx.Exec(ctx, `
			INSERT INTO schedules (tenant, name, spec, timezone, missed, catch_up, overlap, queue, agent, owner, input, input_mac,
				requires, priority, concurrency_key, max_attempts, budget_pico, next_at, created_by, updated_by, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $19, $20, $20)
			ON CONFLICT (tenant, name) DO UPDATE SET spec = $3, timezone = $4, missed = $5, catch_up = $6, overlap = $7, queue = $8, agent = $9, owner = $10,
				input = $11, input_mac = $12, requires = $13, priority = $14, concurrency_key = $15, max_attempts = $16, budget_pico = $17, next_at = $18,
				updated_by = $19, updated_at = $20, error = '', error_at = NULL`,
			r.Tenant, c.Name, c.Cron, c.TimeZone, c.Missed, c.CatchUp, c.Overlap, r.Queue, r.Agent, r.Owner, rawJSON(r.Input.Bytes()), r.InputMAC,
			r.Requires, r.Priority, r.ConcurrencyKey, max(r.MaxAttempts, 0), r.Budget, stamp(next), by, now)
		if err != nil {
			return err
		}
		verb := "change"
		if fresh {
			verb = "make"
		}
		detail := fmt.Sprintf("%s %s, missed %s, overlap %s, agent %s in queue %s", c.Cron, c.TimeZone, c.Missed, c.Overlap, r.Agent, r.Queue)
		if err := s.act(ctx, tx, actSchedule, c.ID().String(), verb, by, detail); err != nil {
			return err
		}
		state, err = s.lockSchedule(ctx, tx, c.ID())
		return err
	})
	if err != nil {
		return fail(err)
	}
	return state, nil
}

// Schedules implements ledger.Schedules.
func (s *Store) Schedules(ctx context.Context, f ledger.ScheduleFilter) (out []ledger.ScheduleState, err error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	c := new(condition)
	c.sql = `(s.tenant, s.name) > (` + c.at(f.After.Tenant) + `, ` + c.at(f.After.Name) + `)`
	if f.Tenant != "" {
		c.sql += ` AND s.tenant = ` + c.at(f.Tenant)
	}
	if f.Name != "" {
		c.sql += ` AND s.name = ` + c.at(f.Name)
	}
	c.sql += ` ORDER BY s.tenant, s.name LIMIT ` + c.at(f.Limit)
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		out = nil
		rows, err := tx.Query(ctx, `SELECT `+scheduleColumns+` FROM schedules s WHERE `+c.sql, c.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			state, err := s.scanSchedule(rows)
			if err != nil {
				return err
			}
			out = append(out, state)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return out, nil
}

// change does something to a schedule in the name of the caller.
func (s *Store) change(ctx context.Context, id ledger.ScheduleID, verb, by, reason string, f func(ctx context.Context, tx Tx, c ledger.ScheduleState, now time.Time, by, reason string) (acted bool, err error)) error {
	if by == "" || reason == "" {
		return fmt.Errorf("%s schedule %s: who and why are required", verb, id)
	}
	by, reason = s.cfg.Redactor.String(by), s.cfg.Redactor.String(reason)
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		c, err := s.lockSchedule(ctx, tx, id)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		acted, err := f(ctx, tx, c, now, by, reason)
		if err != nil || !acted {
			return err
		}
		return s.act(ctx, tx, actSchedule, id.String(), verb, by, reason)
	})
	if err != nil {
		return fmt.Errorf("%s schedule %s: %w", verb, id, err)
	}
	return nil
}

// PauseSchedule implements ledger.Schedules.
func (s *Store) PauseSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) (p ledger.Pause, done bool, err error) {
	err = s.change(ctx, id, "pause", by, reason, func(ctx context.Context, tx Tx, c ledger.ScheduleState, now time.Time, by, reason string) (bool, error) {
		if p, done = c.Paused, false; !p.At.IsZero() {
			return false, nil // the first pause stands
		}
		p, done = ledger.Pause{At: now, By: by, Reason: reason}, true
		return true, one(tx.Exec(ctx, `UPDATE schedules SET paused_at = $3, paused_by = $4, paused_reason = $5 WHERE tenant = $1 AND name = $2`,
			id.Tenant, id.Name, p.At, p.By, p.Reason))
	})
	if err != nil {
		return ledger.Pause{}, false, err
	}
	return p, done, nil
}

// ResumeSchedule implements ledger.Schedules.
func (s *Store) ResumeSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) (state ledger.ScheduleState, err error) {
	err = s.change(ctx, id, "resume", by, reason, func(ctx context.Context, tx Tx, c ledger.ScheduleState, now time.Time, _, _ string) (bool, error) {
		if c.Paused.At.IsZero() {
			return false, ledger.ErrNotPaused
		}
		spec, err := ledger.ParseCron(c.Cron, c.TimeZone)
		if err != nil {
			return false, err
		}
		state = c
		state.Paused, state.NextFire = ledger.Pause{}, spec.Next(now)
		return true, one(tx.Exec(ctx, `UPDATE schedules SET paused_at = NULL, paused_by = '', paused_reason = '', next_at = $3 WHERE tenant = $1 AND name = $2`,
			id.Tenant, id.Name, stamp(state.NextFire)))
	})
	if err != nil {
		return ledger.ScheduleState{}, err
	}
	return state, nil
}

// DeleteSchedule implements ledger.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, id ledger.ScheduleID, by, reason string) error {
	return s.change(ctx, id, "delete", by, reason, func(ctx context.Context, tx Tx, _ ledger.ScheduleState, _ time.Time, _, _ string) (bool, error) {
		return true, one(tx.Exec(ctx, `DELETE FROM schedules WHERE tenant = $1 AND name = $2`, id.Tenant, id.Name))
	})
}

// fireTrace names a run's trace after the fire that makes it, so that whoever
// fires it makes the same.
func fireTrace(id ledger.ScheduleID, key string) string {
	h := sha256.Sum256([]byte("daybook/fire/1\x00" + id.Tenant + "\x00" + key))
	return fmt.Sprintf("00-%x-%x-01", h[:16], h[16:24])
}
