package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Heartbeat implements ledger.Runs. It takes the same few statements however
// many leases there are. A lease that has run out is extended all the same as
// long as nobody has taken the run.
func (s *Store) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	if len(ls) == 0 {
		return nil, nil
	}
	if err := fault.Err("renew.before"); err != nil {
		return nil, fmt.Errorf("heartbeat of worker %q: %w: %w", worker, ledger.ErrUnavailable, err)
	}
	beats := make([]ledger.Beat, len(ls))
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		clear(beats)
		return renew(ctx, tx, worker, ls, beats)
	})
	if err != nil {
		return nil, fmt.Errorf("heartbeat of worker %q for %d runs: %w", worker, len(ls), err)
	}
	return beats, nil
}

// renewal is what a heartbeat reads of a locked run.
type renewal struct {
	epoch      uint64
	worker     string
	until      time.Time
	state      ledger.State
	by, reason string
	held       ledger.Pause
	facts      []events.Fact
	folded     uint64
}

func renew(ctx context.Context, tx Tx, worker string, ls []ledger.Lease, beats []ledger.Beat) error {
	rows, err := lockRenewals(ctx, tx, ls)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	held := map[time.Duration][]events.RunID{} // by TTL, of which a worker has one
	var all []events.RunID
	for i, l := range ls {
		b := &beats[i]
		b.RunID = l.RunID
		r := rows[l.RunID]
		if r == nil || (r.epoch != l.Epoch || r.worker != worker) && !bug.On(bug.HeartbeatIgnoresEpoch) || r.until.IsZero() {
			continue
		}
		b.Held, b.Remaining = true, l.TTL
		b.Cancelling, b.CancelBy, b.CancelReason = r.state == ledger.Cancelling, r.by, r.reason
		b.Paused, b.PausedBy, b.PausedReason = !r.held.At.IsZero(), r.held.By, r.held.Reason
		held[l.TTL] = append(held[l.TTL], l.RunID)
		all = append(all, l.RunID)
	}
	for ttl, ids := range held {
		_, err := tx.Exec(ctx, `UPDATE runs SET lease_until = $1, clean = false WHERE `+tx.InIDs("id", 2), events.Timestamp(now.Add(ttl)), ids)
		if err != nil {
			return fmt.Errorf("extend %d leases: %w", len(ids), err)
		}
	}
	if err := readFacts(ctx, tx, all, rows); err != nil {
		return err
	}
	if err := readFolded(ctx, tx, all, rows); err != nil {
		return err
	}
	for i := range beats {
		if beats[i].Held {
			r := rows[beats[i].RunID]
			beats[i].Facts, beats[i].Folded = r.facts, r.folded
		}
	}
	return nil
}

// readFolded looks, without a lock, how far the projector has come.
func readFolded(ctx context.Context, tx Tx, ids []events.RunID, into map[events.RunID]*renewal) error {
	rows, err := tx.Query(ctx, `SELECT run_id, folded_seq FROM run_folds WHERE `+tx.InIDs("run_id", 1), ids)
	if err != nil {
		return fmt.Errorf("read folds: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id events.RunID
		var folded uint64
		if err := rows.Scan(&id, &folded); err != nil {
			return fmt.Errorf("read folds: %w", err)
		}
		into[id].folded = folded
	}
	return rows.Err()
}

// lockRenewals locks the runs of ls in the order of their ids.
func lockRenewals(ctx context.Context, tx Tx, ls []ledger.Lease) (map[events.RunID]*renewal, error) {
	ids := make([]events.RunID, len(ls))
	for i, l := range ls {
		ids[i] = l.RunID
	}
	slices.SortFunc(ids, func(a, b events.RunID) int { return bytes.Compare(a[:], b[:]) })
	rows, err := tx.Query(ctx, `
		SELECT id, epoch, worker, lease_until, state, cancel_by, cancel_reason, held_at, held_by, held_reason FROM runs
		WHERE `+tx.InIDs("id", 1)+` ORDER BY id FOR NO KEY UPDATE`, ids)
	if err != nil {
		return nil, fmt.Errorf("lock runs: %w", err)
	}
	defer rows.Close()
	out := map[events.RunID]*renewal{}
	for rows.Next() {
		var id events.RunID
		r := &renewal{}
		if err := rows.Scan(&id, &r.epoch, &r.worker, &r.until, &r.state, &r.by, &r.reason, &r.held.At, &r.held.By, &r.held.Reason); err != nil {
			return nil, fmt.Errorf("lock runs: %w", err)
		}
		out[id] = r
	}
	return out, rows.Err()
}

func readFacts(ctx context.Context, tx Tx, ids []events.RunID, into map[events.RunID]*renewal) error {
	rows, err := tx.Query(ctx, `
		SELECT run_id, event_id, type, version, trace, data, created_at FROM facts
		WHERE `+tx.InIDs("run_id", 1)+` ORDER BY id`, ids)
	if err != nil {
		return fmt.Errorf("read facts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var f events.Fact
		var data []byte
		if err := rows.Scan(&f.RunID, &f.ID, &f.Type, &f.Version, &f.Trace, &data, &f.At); err != nil {
			return fmt.Errorf("read facts: %w", err)
		}
		f.Data = data
		into[f.RunID].facts = append(into[f.RunID].facts, f)
	}
	return rows.Err()
}

// VoidLeases ends every lease at once. It is for the one process that knows
// that no other holder lives: a worker of the embedded mode that has just taken
// the lock of its directory.
func (s *Store) VoidLeases(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM feed_lease`); err != nil {
			return err
		}
		n, err = tx.Exec(ctx, `UPDATE runs SET lease_until = $1 WHERE lease_until > $1`, now)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("void leases: %w", err)
	}
	return n, nil
}
