package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// step is what a barrier does after its first two steps. A refusal is an
// answer: it is returned, and what was done before it is committed.
type step func(ctx context.Context, tx Tx, h holder) (refusal, err error)

// barrier runs a barrier's transaction. again may recognise, on the locked
// row, that the same barrier was committed before and its answer lost.
func (s *Store) barrier(ctx context.Context, name string, l ledger.Lease, p ledger.Prefix, again func(ledger.Run) bool, do step) error {
	var refusal error
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		refusal = nil
		h, err := s.lockHolder(ctx, tx, l)
		redo := errors.Is(err, ledger.ErrFenced) && again != nil && h.run.Epoch == l.Epoch && h.run.LeaseUntil.IsZero() && again(h.run)
		if err != nil && !redo {
			return err
		}
		if err := s.carry(ctx, tx, l, p); err != nil || redo {
			return err
		}
		refusal, err = do(ctx, tx, h)
		return err
	})
	if err = errors.Join(err, refusal); err != nil {
		return fmt.Errorf("%s run %s: %w", name, l.RunID, err)
	}
	return nil
}

// Flush implements ledger.Barriers.
func (s *Store) Flush(ctx context.Context, l ledger.Lease, p ledger.Prefix) (facts []events.Fact, err error) {
	err = s.barrier(ctx, "flush", l, p, nil, func(ctx context.Context, tx Tx, _ holder) (_, err error) {
		facts, err = pendingFacts(ctx, tx, l.RunID)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return facts, nil
}

// Park implements ledger.Barriers.
func (s *Store) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, park ledger.Parking) error {
	if err := checkParking(park); err != nil {
		return fmt.Errorf("park run %s: %w", l.RunID, err)
	}
	park.Detail = s.cfg.Redactor.String(park.Detail)
	again := func(r ledger.Run) bool {
		if park.Reason == events.ParkHandover {
			return r.State == ledger.Queued || r.State == ledger.Cancelling
		}
		return r.State == ledger.Parked && r.ParkReason == park.Reason && r.ParkKey == parkKey(r, park)
	}
	err := s.barrier(ctx, "park", l, p, again, func(ctx context.Context, tx Tx, h holder) (refusal, err error) {
		if h.run.State.Ended() {
			return ledger.ErrEnded, nil
		}
		if park.Reason == events.ParkHandover {
			// Nothing is waited for, so nothing can be missed.
			return nil, errors.Join(handOver(ctx, tx, h), fault.Err("park.before_commit"))
		}
		if refusal, err = mayPark(ctx, tx, h, park); refusal != nil || err != nil {
			return refusal, err
		}
		var wake time.Time
		if park.After > 0 {
			wake = events.Timestamp(h.now.Add(park.After))
		}
		if onHandoffs(park.Reason) {
			first, err := firstExpiry(ctx, tx, l.RunID)
			if err != nil {
				return nil, err
			}
			if !first.IsZero() && (wake.IsZero() || first.Before(wake)) {
				wake = first
			}
		}
		err = one(tx.Exec(ctx, `
			UPDATE runs SET state = 'parked', park_reason = $3, park_detail = $4, park_key = $5, wake_at = $6, parked_at = $7,
				clean = true, lease_until = NULL, not_before = NULL, idle_claims = 0, crashes = 0
			WHERE id = $1 AND epoch = $2 AND state = 'running'`,
			l.RunID, l.Epoch, park.Reason, park.Detail, parkKey(h.run, park), wake, h.now))
		return nil, errors.Join(err, fault.Err("park.before_commit"))
	})
	if err == nil {
		if err = fault.Err("park.after_commit"); err != nil {
			err = fmt.Errorf("park run %s: %w: %w", l.RunID, ledger.ErrUnavailable, err)
		}
	}
	return err
}

func checkParking(park ledger.Parking) error {
	onEffect := park.Reason == events.ParkInDoubt || park.Reason == events.ParkEffectBusy
	switch {
	case park.Reason == "":
		return errors.New("no reason: every wait has a name")
	case onEffect && park.OpKey.IsZero():
		return fmt.Errorf("reason %s needs the op key that is waited for", park.Reason)
	case park.Reason == events.ParkApproval && park.Approval.IsZero():
		return errors.New("reason approval needs the approval that is waited for")
	}
	return nil
}

// parkKey is what whoever ends the wait finds the run by.
func parkKey(r ledger.Run, park ledger.Parking) events.Hash {
	if park.Reason == events.ParkPaused && park.Tool != "" {
		return ledger.SwitchKey(r.Tenant, park.Tool)
	}
	return park.OpKey
}

// one checks that exactly one row was changed.
func one(n int64, err error) error {
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%d rows changed, want 1: the row is not as it was read under its lock", n)
	}
	return nil
}

// handOver puts a run back into the queue, or leaves it cancelling, without a lease.
func handOver(ctx context.Context, tx Tx, h holder) error {
	return one(tx.Exec(ctx, `
		UPDATE runs SET state = CASE WHEN state = 'running' THEN 'queued' ELSE state END, clean = true, lease_until = NULL, crashes = 0
		WHERE id = $1 AND epoch = $2 AND state = $3`, h.run.ID, h.run.Epoch, h.run.State))
}

// mayPark refuses a wait that is over before it began: nobody would end it.
func mayPark(ctx context.Context, tx Tx, h holder, park ledger.Parking) (refusal, err error) {
	if h.run.State == ledger.Cancelling {
		return fmt.Errorf("it is cancelling: %w", ledger.ErrFactsPending), nil
	}
	facts, err := pendingFacts(ctx, tx, h.run.ID)
	if err != nil {
		return nil, err
	}
	if len(facts) > 0 {
		return fmt.Errorf("%d of them, the first is %s: %w", len(facts), facts[0].Type, ledger.ErrFactsPending), nil
	}
	switch {
	case park.Held && h.run.HeldAt.IsZero():
		return fmt.Errorf("it is not paused any more: %w", ledger.ErrFactsPending), nil
	case park.Reason == events.ParkApproval:
		return mayAwaitApproval(ctx, tx, h, park.Approval)
	case park.Reason == events.ParkPaused && park.Tool != "":
		mode, err := switchMode(ctx, tx, h.run.Tenant, park.Tool)
		if err == nil && mode != ledger.SwitchPaused {
			refusal = fmt.Errorf("tool %s is not paused any more: %w", park.Tool, ledger.ErrFactsPending)
		}
		return refusal, err
	case park.OpKey.IsZero():
		return nil, nil
	}
	var state events.EffectState
	err = tx.QueryRow(ctx, `SELECT state FROM effects WHERE op_key = $1 FOR SHARE`, park.OpKey).Scan(&state)
	switch {
	case errors.Is(err, ErrNoRows):
		return fmt.Errorf("effect %s is not there any more: %w", park.OpKey, ledger.ErrFactsPending), nil
	case err != nil:
		return nil, fmt.Errorf("read effect %s: %w", park.OpKey, err)
	case state != events.EffectStarted && state != events.EffectInDoubt:
		return fmt.Errorf("effect %s is %s: %w", park.OpKey, state, ledger.ErrFactsPending), nil
	case park.Tool == "":
		return nil, nil
	}
	// It was not made again because of a switch: whoever turns that on after this
	// finds the run, and what was turned on before is seen here.
	mode, err := switchMode(ctx, tx, h.run.Tenant, park.Tool)
	if err == nil && mode == ledger.SwitchOn {
		refusal = fmt.Errorf("tool %s is on again: %w", park.Tool, ledger.ErrFactsPending)
	}
	return refusal, err
}
