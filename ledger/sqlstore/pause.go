package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// operation is what a person does to a run, as it is recorded.
type operation struct {
	fact       events.ID
	by, reason string
}

// operate does f to a locked run that has not ended.
func (s *Store) operate(ctx context.Context, verb string, id events.RunID, by, reason string, f func(context.Context, Tx, *ledger.Run, operation) error) (run ledger.Run, err error) {
	op := operation{s.cfg.IDs.Event(), s.cfg.Redactor.String(by), s.cfg.Redactor.String(reason)}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		run, err = lockRun(ctx, tx, id)
		if err == nil && run.State.Ended() {
			err = fmt.Errorf("it is %s: %w", run.State, ledger.ErrEnded)
		}
		if err != nil {
			return err
		}
		return f(ctx, tx, &run, op)
	})
	if err != nil {
		return ledger.Run{}, fmt.Errorf("%s run %s: %w", verb, id, err)
	}
	return run, nil
}

// acted tells a run what a person did to it.
func (s *Store) acted(ctx context.Context, tx Tx, run ledger.Run, verb string, op operation) error {
	_, _, err := s.addFact(ctx, tx, run.ID, op.fact, events.OperatorActed{Verb: verb, By: op.by, Detail: op.reason}, run.Trace)
	return err
}

// Pause implements ledger.Holds.
func (s *Store) Pause(ctx context.Context, id events.RunID, by, reason string) (run ledger.Run, done bool, err error) {
	run, err = s.operate(ctx, "pause", id, by, reason, func(ctx context.Context, tx Tx, run *ledger.Run, op operation) error {
		done = false
		switch {
		case run.State == ledger.Cancelling:
			return ledger.ErrCancelling
		case !run.HeldAt.IsZero():
			return nil // the first pause stands
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		done = true
		return s.hold(ctx, tx, run, op, now)
	})
	return run, done && err == nil, err
}

// hold holds back a locked run.
func (s *Store) hold(ctx context.Context, tx Tx, run *ledger.Run, op operation, now time.Time) error {
	run.HeldAt, run.HeldBy, run.HeldReason = now, op.by, op.reason
	err := one(tx.Exec(ctx, `UPDATE runs SET held_at = $2, held_by = $3, held_reason = $4 WHERE id = $1 AND held_at IS NULL AND state = $5 AND epoch = $6`,
		run.ID, now, op.by, op.reason, run.State, run.Epoch))
	if err != nil {
		return err
	}
	return s.acted(ctx, tx, *run, "pause", op)
}

// Resume implements ledger.Holds.
func (s *Store) Resume(ctx context.Context, id events.RunID, by, reason string) (ledger.Run, error) {
	return s.operate(ctx, "resume", id, by, reason, func(ctx context.Context, tx Tx, run *ledger.Run, op operation) error {
		if run.HeldAt.IsZero() {
			return fmt.Errorf("it is %s: %w", run.State, ledger.ErrNotPaused)
		}
		err := one(tx.Exec(ctx, `UPDATE runs SET held_at = NULL, held_by = '', held_reason = '', crashes = 0 WHERE id = $1 AND held_at IS NOT NULL AND epoch = $2`, id, run.Epoch))
		if err != nil {
			return err
		}
		run.HeldAt, run.HeldBy, run.HeldReason = time.Time{}, "", ""
		return s.acted(ctx, tx, *run, "resume", op) // it also makes a parked run claimable
	})
}

// holdCrashing holds back a run whose workers die: the next one would too. Its
// row is locked. The journal's tail stays for whoever takes it after a resume.
func (s *Store) holdCrashing(ctx context.Context, tx Tx, c candidate, now time.Time) error {
	why := fmt.Sprintf("%d workers in a row died or lost their lease with this run, the last was %s, and none left an outcome in its history", c.crashes+1, c.run.Worker)
	s.cfg.Logger.ErrorContext(ctx, "run held back: its workers die", "run", c.run.ID, "crashes", c.crashes+1, "last_worker", c.run.Worker)
	run := c.run
	if run.HeldAt.IsZero() {
		if err := s.hold(ctx, tx, &run, operation{s.cfg.IDs.Event(), ledger.ByDaybook, why}, now); err != nil {
			return err
		}
	}
	return one(tx.Exec(ctx, `
		UPDATE runs SET state = 'parked', park_reason = $3, park_detail = $4, parked_at = $5, lease_until = NULL
		WHERE id = $1 AND epoch = $2 AND state = 'running'`,
		run.ID, run.Epoch, events.ParkPaused, why, now))
}

// noOutcome are the events that a worker records before it knows whether
// anything comes of it.
const noOutcome = `('run_queued', 'run_started', 'run_resumed', 'run_parked', 'run_unparked', 'timer_fired', 'turn_started', 'step_planned', 'model_call_started',
	'tool_execution_started', 'tool_execution_progress', 'artifact_validation_started', 'artifact_revision_started')`

// forgetCrashes ends a row of crashes: the holders before this one brought the
// run forward. What they brought may be an event or, when its holder had no time
// to number it, a fact; one that is older than the last base was counted then.
func forgetCrashes(ctx context.Context, tx Tx, l ledger.Lease) error {
	const last = `FROM run_epochs p WHERE p.run_id = $1 AND p.epoch < $2 ORDER BY p.epoch DESC LIMIT 1`
	return tx.Later(ctx, fmt.Sprintf("forget crashes of run %s", l.RunID), `
		UPDATE runs SET crashes = 0 WHERE id = $1 AND crashes > 0 AND (EXISTS (
			SELECT 1 FROM events e WHERE e.run_id = $1 AND e.type NOT IN `+noOutcome+`
			AND e.seq > coalesce((SELECT p.base_seq `+last+`), 0))
		OR EXISTS (
			SELECT 1 FROM facts f WHERE f.run_id = $1 AND f.type IN ('tool_execution_finished', 'tool_execution_error')
			AND f.created_at > (SELECT p.created_at `+last+`)))`,
		l.RunID, l.Epoch)
}
