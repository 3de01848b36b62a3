package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// terminal is the event that goes with an end.
func terminal(s ledger.State) (events.Type, error) {
	switch s {
	case ledger.Finished:
		return events.TypeOf(events.RunFinished{}), nil
	case ledger.Failed:
		return events.TypeOf(events.RunFailed{}), nil
	case ledger.Cancelled:
		return events.TypeOf(events.RunCancelled{}), nil
	}
	return "", fmt.Errorf("state %q is no end", s)
}

// Finish implements ledger.Barriers.
func (s *Store) Finish(ctx context.Context, l ledger.Lease, p ledger.Prefix, end ledger.Ending) error {
	typ, err := terminal(end.State)
	if err != nil {
		return fmt.Errorf("finish run %s: %w", l.RunID, err)
	}
	result, err := s.redacted(end.Result)
	if err != nil {
		return fmt.Errorf("finish run %s: result: %w", l.RunID, err)
	}
	again := func(r ledger.Run) bool { return r.State == end.State }
	err = s.barrier(ctx, "finish", l, p, again, func(ctx context.Context, tx Tx, h holder) (refusal, err error) {
		switch {
		case h.run.State == end.State: // claimed to settle, and the history says the same
			return nil, giveBack(ctx, tx, h)
		case h.run.State.Ended():
			return fmt.Errorf("it is %s, not %s: %w", h.run.State, end.State, ledger.ErrEnded), nil
		}
		var n, open int
		err = tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM events WHERE run_id = $1 AND type = $2),
			(SELECT count(*) FROM handoffs WHERE run_id = $1 AND state = 'open')`, l.RunID, typ).Scan(&n, &open)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", typ, err)
		}
		if n == 0 {
			return fmt.Errorf("its history has no %s: record it first, it belongs into the prefix", typ), nil
		}
		retried, dead, err := s.tryAgain(ctx, tx, h, end)
		if err != nil {
			return nil, err
		}
		err = one(tx.Exec(ctx, `
			UPDATE runs SET state = $3, stopped_by = $4, result = $5, error = $6, ended_at = $7,
				clean = true, lease_until = NULL, not_before = NULL, idle_claims = 0, crashes = 0,
				held_at = NULL, held_by = '', held_reason = '', successor = coalesce($9, successor), dead_at = $10
			WHERE id = $1 AND epoch = $2 AND state = $8`,
			l.RunID, l.Epoch, end.State, end.StoppedBy, result, s.cfg.Redactor.String(end.Error), h.now, h.run.State, retried, dead))
		if err != nil {
			return nil, err
		}
		if retried.IsZero() {
			if err := leaveSession(ctx, tx, h.run, h.now); err != nil {
				return nil, err
			}
		}
		// In the order of locks: runs, sessions, effects, budgets, hand-offs.
		if open > 0 {
			if err := s.cancelDescendants(ctx, tx, h.run, operation{by: "run " + h.run.ID.String(), reason: "the run that it works for has ended"}); err != nil {
				return nil, err
			}
			if err := s.endHandoffs(ctx, tx, h.run.ID, true, h.now); err != nil {
				return nil, err
			}
		}
		if err := s.passGrants(ctx, tx, h.run.ID, h.now); err != nil {
			return nil, err
		}
		if open > 0 {
			if err := s.endHandoffs(ctx, tx, h.run.ID, false, h.now); err != nil {
				return nil, err
			}
		}
		if !retried.IsZero() {
			return nil, inheritParent(ctx, tx, h.run.ID, retried)
		}
		end.Result, end.Error = result, s.cfg.Redactor.String(end.Error)
		return nil, s.completeParent(ctx, tx, h.run, end)
	})
	if err == nil {
		if err = fault.Err("finish.after_commit"); err != nil {
			err = fmt.Errorf("finish run %s: %w: %w", l.RunID, ledger.ErrUnavailable, err)
		}
	}
	return err
}

func (s *Store) redacted(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	j, err := s.cfg.Redactor.JSON(raw)
	return j.Bytes(), err
}

// errNotEnded: only a settle claim is released.
var errNotEnded = errors.New("run has not ended: park it with reason handover instead")

// Release implements ledger.Barriers.
func (s *Store) Release(ctx context.Context, l ledger.Lease, p ledger.Prefix) error {
	return s.barrier(ctx, "release", l, p, func(r ledger.Run) bool { return r.State.Ended() }, func(ctx context.Context, tx Tx, h holder) (refusal, err error) {
		if !h.run.State.Ended() {
			return errNotEnded, nil
		}
		return nil, giveBack(ctx, tx, h)
	})
}

// giveBack ends the lease on an ended run. If the holder recorded anything, the
// back-off that its claim set is taken back; if not, it stands.
func giveBack(ctx context.Context, tx Tx, h holder) error {
	return one(tx.Exec(ctx, `
		UPDATE runs SET clean = true, lease_until = NULL,
			not_before  = CASE WHEN EXISTS (SELECT 1 FROM events e WHERE e.run_id = runs.id AND e.epoch = runs.epoch) THEN NULL ELSE not_before END,
			idle_claims = CASE WHEN EXISTS (SELECT 1 FROM events e WHERE e.run_id = runs.id AND e.epoch = runs.epoch) THEN 0 ELSE idle_claims END
		WHERE id = $1 AND epoch = $2 AND state = $3`, h.run.ID, h.run.Epoch, h.run.State))
}
