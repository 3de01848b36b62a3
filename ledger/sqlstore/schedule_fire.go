package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// FireDue implements ledger.Schedules.
func (s *Store) FireDue(ctx context.Context, limit int) (fired []ledger.Fired, err error) {
	if limit <= 0 {
		limit = 100
	}
	due, err := s.dueSchedules(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("look for schedules that are due: %w", err)
	}
	for _, id := range due {
		var f ledger.Fired
		err := s.comparing(ctx, func() (err error) {
			f, err = s.fire(ctx, id)
			return err
		})
		switch {
		case errors.Is(err, ledger.ErrUnavailable), err != nil && ctx.Err() != nil:
			return fired, fmt.Errorf("fire schedule %s: %w", id, err)
		case err != nil:
			// It must not keep the others from firing, nor be asked all the time.
			f = ledger.Fired{ScheduleID: id, Err: err}
			if err := s.cannotFire(ctx, id, err); err != nil {
				return fired, fmt.Errorf("note that schedule %s cannot fire: %w", id, err)
			}
		case f.Name == "":
			continue // somebody else did
		}
		fired = append(fired, f)
	}
	return fired, nil
}

// dueSchedules lists what is due, what waits longest first. It locks nothing:
// most of the time nothing is due.
func (s *Store) dueSchedules(ctx context.Context, limit int) (ids []ledger.ScheduleID, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		ids = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT s.tenant, s.name FROM schedules s
			WHERE s.next_at IS NOT NULL AND s.paused_at IS NULL AND s.next_at <= $1 AND (s.error_at IS NULL OR s.error_at <= $2)
			ORDER BY s.next_at, s.tenant, s.name LIMIT $3`, now, now.Add(-ledger.FireAgain), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id ledger.ScheduleID
			if err := rows.Scan(&id.Tenant, &id.Name); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
}

// fire makes the runs of one schedule's fires that are due, and moves it on, in
// one transaction. No name: it is not due any more, or another is at it.
func (s *Store) fire(ctx context.Context, id ledger.ScheduleID) (f ledger.Fired, err error) {
	budget := false
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		f = ledger.Fired{}
		c, err := s.scanSchedule(tx.QueryRow(ctx, `
			SELECT `+scheduleColumns+` FROM schedules s
			WHERE s.tenant = $1 AND s.name = $2 AND s.next_at IS NOT NULL AND s.paused_at IS NULL FOR UPDATE SKIP LOCKED`, id.Tenant, id.Name))
		if errors.Is(err, ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil || c.NextFire.After(now) {
			return err
		}
		if err := s.refuseRolledBack(ctx, tx, now); err != nil {
			return err
		}
		spec, err := ledger.ParseCron(c.Cron, c.TimeZone)
		if err != nil {
			return err
		}
		fires, missed := dueFires(c, spec, now)
		f = ledger.Fired{ScheduleID: id, Queue: c.Run.Queue, Skipped: missed}
		if missed > 0 {
			f.Why = missedWhy(c.Missed, len(fires))
		}
		if c.Overlap == ledger.OverlapSkip && len(fires) > 0 {
			why, err := stillGoing(ctx, tx, id)
			if err != nil {
				return err
			}
			if why != "" {
				f.Skipped, f.Why, fires = f.Skipped+len(fires), why, nil
			}
		}
		for _, at := range fires {
			run, err := s.fireOne(ctx, tx, c, at)
			if err != nil {
				return fmt.Errorf("fire of %s: %w", at.Format(time.RFC3339), err)
			}
			f.Runs = append(f.Runs, run)
		}
		if err := moveOn(ctx, tx, c, f, now, spec.Next(now)); err != nil {
			return err
		}
		budget = c.Run.Budget != nil && len(f.Runs) > 0
		fault.Point("schedule.before_commit")
		return nil
	})
	if err != nil {
		return ledger.Fired{}, err
	}
	if f.Name != "" {
		fault.Point("schedule.after_commit")
	}
	if budget {
		s.budgets.noticed()
	}
	return f, nil
}

// dueFires says which of the fires that are due at now make a run, and how many
// more there are that do not.
func dueFires(c ledger.ScheduleState, spec ledger.Cron, now time.Time) (fires []time.Time, missed int) {
	keep := 1
	if c.Missed == ledger.MissedAll {
		keep = c.CatchUp
	}
	fires, n := spec.Due(c.NextFire, now, keep)
	if c.Missed == ledger.MissedSkip && n > 0 && now.Sub(fires[0]) > ledger.FireGrace {
		fires = nil
	}
	return fires, n - len(fires)
}

func missedWhy(rule ledger.MissedRule, made int) string {
	switch {
	case rule == ledger.MissedOnce:
		return "nobody fired it in time, and one run makes up for all that was missed"
	case rule == ledger.MissedAll:
		return fmt.Sprintf("nobody fired it in time, and more was missed than the %d fires that are made up for", made)
	}
	return "nobody fired it in time, and what was missed is skipped"
}

// stillGoing says which run of the schedule has not ended; empty for none.
func stillGoing(ctx context.Context, tx Tx, id ledger.ScheduleID) (string, error) {
	run, err := scanRun(tx.QueryRow(ctx, `
		SELECT `+runColumns+` FROM runs r
		WHERE r.tenant = $1 AND r.schedule = $2 AND r.schedule <> '' AND r.state IN ('queued','running','parked','cancelling') LIMIT 1`, id.Tenant, id.Name))
	switch {
	case errors.Is(err, ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for a run that has not ended: %w", err)
	case run.State == ledger.Parked:
		return fmt.Sprintf("run %s of an earlier fire has not ended: it is parked (%s)", run.ID, run.ParkReason), nil
	}
	return fmt.Sprintf("run %s of an earlier fire has not ended: it is %s", run.ID, run.State), nil
}

// fireOne submits the run of one fire, unless there is one. Its client key names
// the fire, so there is never a second, also where a row of schedules went back in time.
func (s *Store) fireOne(ctx context.Context, tx Tx, c ledger.ScheduleState, at time.Time) (ledger.FiredRun, error) {
	id := c.ID()
	in := c.Run
	in.ClientKey, in.Schedule = id.FireKey(at), c.Name
	in.Trace = fireTrace(id, in.ClientKey)
	if err := checkSubmission(in); err != nil {
		return ledger.FiredRun{}, err
	}
	run, _, err := s.submitted(ctx, tx, s.cfg.IDs.Run(), in, "schedule "+c.Name)
	if errors.Is(err, ledger.ErrClientKeyConflict) { // made before the schedule was changed
		run, err = scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs r WHERE r.tenant = $1 AND r.client_key = $2`, id.Tenant, in.ClientKey))
	}
	if err == nil && run.Schedule != c.Name {
		err = fmt.Errorf("run %s has the client key %q, which is this fire's, and is not of this schedule: keys that begin with %q belong to schedules", run.ID, in.ClientKey, "schedule/")
	}
	if err != nil {
		return ledger.FiredRun{}, err
	}
	return ledger.FiredRun{Fire: at, Run: run.ID}, nil
}

// moveOn writes down what was fired, and when the next fire is.
func moveOn(ctx context.Context, tx Tx, c ledger.ScheduleState, f ledger.Fired, now, next time.Time) error {
	if n := len(f.Runs); n > 0 {
		c.LastFire, c.LastRun = f.Runs[n-1].Fire, f.Runs[n-1].Run
	}
	if f.Skipped > 0 {
		c.Skipped, c.SkippedAt, c.SkippedWhy = c.Skipped+int64(f.Skipped), now, f.Why
	}
	return one(tx.Exec(ctx, `
		UPDATE schedules SET next_at = $3, last_at = $4, last_run = $5, skipped = $6, skipped_at = $7, skipped_why = $8, error = '', error_at = NULL
		WHERE tenant = $1 AND name = $2 AND next_at = $9`,
		f.Tenant, f.Name, stamp(next), stamp(c.LastFire), c.LastRun, c.Skipped, stamp(c.SkippedAt), c.SkippedWhy, c.NextFire))
}

// cannotFire notes why a schedule could not fire. It stays due.
func (s *Store) cannotFire(ctx context.Context, id ledger.ScheduleID, why error) error {
	text := s.cfg.Redactor.String(why.Error())
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE schedules SET error = $3, error_at = $4 WHERE tenant = $1 AND name = $2 AND next_at <= $4`, id.Tenant, id.Name, text, now)
		return err
	})
}
