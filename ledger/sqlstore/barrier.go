package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// holder is the runs row of a barrier, locked.
type holder struct {
	run   ledger.Run
	now   time.Time // read after the row lock
	left  time.Duration
	clean bool
}

// lockHolder locks the run of l and checks that l still holds it.
func (s *Store) lockHolder(ctx context.Context, tx Tx, l ledger.Lease) (holder, error) {
	r, err := lockRun(ctx, tx, l.RunID)
	if err != nil {
		return holder{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return holder{}, err
	}
	if r.Epoch != l.Epoch || r.LeaseUntil.IsZero() || !r.LeaseUntil.After(now) {
		return holder{}, fmt.Errorf("run %s: epoch %d of worker %q, now epoch %d of %q: %w", l.RunID, l.Epoch, l.Worker, r.Epoch, r.Worker, ledger.ErrFenced)
	}
	return holder{run: r, now: now, left: r.LeaseUntil.Sub(now)}, nil
}

// carry is the first two steps of every barrier: the prefix goes into the
// archive, and the facts whose events are there go away.
func (s *Store) carry(ctx context.Context, tx Tx, l ledger.Lease, p ledger.Prefix) error {
	if len(p) > 0 {
		if err := s.insertPrefix(ctx, tx, l, p); err != nil {
			return err
		}
	}
	return dropRecordedFacts(ctx, tx, l.RunID)
}

// insertPrefix puts the holder's own events into the archive. The holder's
// epoch is the run's newest (the runs row is locked), so no later base can make
// them invalid; a different event at one of its sequences means a fork.
func (s *Store) insertPrefix(ctx context.Context, tx Tx, l ledger.Lease, p ledger.Prefix) error {
	for i, e := range p {
		env := e.Envelope()
		if env.RunID != l.RunID || env.Epoch > l.Epoch || (i > 0 && env.Seq != p[i-1].Envelope().Seq+1) {
			return fmt.Errorf("barrier of run %s: prefix event %d is of run %s epoch %d seq %d", l.RunID, i, env.RunID, env.Epoch, env.Seq)
		}
	}
	top, err := lockFold(ctx, tx, l.RunID)
	if err != nil {
		return err
	}
	first, last := p[0].Envelope().Seq, p[len(p)-1].Envelope().Seq
	if first > top+1 {
		// The projector may be ahead of us but never the reverse: the events
		// between were in an earlier barrier or are lost.
		contiguous, err := contiguousTop(ctx, tx, l.RunID)
		if err != nil {
			return err
		}
		if first > contiguous+1 {
			return fmt.Errorf("barrier of run %s: prefix starts at %d, archive ends at %d", l.RunID, first, contiguous)
		}
	}
	if err := s.insertEvents(ctx, tx, p); err != nil {
		if errors.Is(err, errFork) {
			s.cfg.Logger.ErrorContext(ctx, "fork refused: another event stands at this sequence", "run", l.RunID, "epoch", l.Epoch, "error", err)
			return fmt.Errorf("%w: %w", ledger.ErrFenced, err)
		}
		return err
	}
	if last > top {
		return raiseTop(ctx, tx, l.RunID, last)
	}
	return nil
}

// errFork: another event stands at a sequence.
var errFork = errors.New("another event stands at this sequence")

var eventColumns = []string{
	"run_id", "seq", "epoch", "event_id", "type", "version", "time", "tenant", "session_id", "trace", "prev", "hash", "bytes",
}

func eventRow(e events.Sealed) []any {
	v := e.Envelope()
	return []any{v.RunID, v.Seq, v.Epoch, v.ID, v.Type, v.Version, v.Time, v.Tenant, v.SessionID, v.Trace, v.Prev, e.Hash(), e.Bytes()}
}

// insertEvents inserts events of runs whose folds are locked, in (run, seq)
// order; an event that is there with the same hash is left as it is.
func (s *Store) insertEvents(ctx context.Context, tx Tx, es []events.Sealed) error {
	rows := make([][]any, len(es))
	for i, e := range es {
		rows[i] = eventRow(e)
	}
	n, err := tx.InsertMany(ctx, "events", eventColumns, rows, "ON CONFLICT DO NOTHING")
	if err != nil {
		return fmt.Errorf("insert %d events: %w", len(es), err)
	}
	if n == int64(len(es)) {
		return nil
	}
	for _, e := range es {
		v := e.Envelope()
		var h events.Hash
		err := tx.QueryRow(ctx, `SELECT hash FROM events WHERE run_id = $1 AND seq = $2`, v.RunID, v.Seq).Scan(&h)
		switch {
		case errors.Is(err, ErrNoRows):
			return fmt.Errorf("run %s seq %d: its event id is at another sequence: %w", v.RunID, v.Seq, errFork)
		case err != nil:
			return fmt.Errorf("compare event: run %s seq %d: %w", v.RunID, v.Seq, err)
		case h != e.Hash():
			return fmt.Errorf("run %s seq %d: hash %s is there, not %s: %w", v.RunID, v.Seq, h, e.Hash(), errFork)
		}
	}
	return nil
}

// lockFold locks the run's row of run_folds, making it first if need be, and
// returns the highest sequence in the archive.
func lockFold(ctx context.Context, tx Tx, run events.RunID) (top uint64, err error) {
	const q = `SELECT top_seq FROM run_folds WHERE run_id = $1 FOR UPDATE`
	err = tx.QueryRow(ctx, q, run).Scan(&top)
	if errors.Is(err, ErrNoRows) {
		if _, err = tx.Exec(ctx, `INSERT INTO run_folds (run_id) VALUES ($1) ON CONFLICT DO NOTHING`, run); err == nil {
			err = tx.QueryRow(ctx, q, run).Scan(&top)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("lock fold of run %s: %w", run, err)
	}
	return top, nil
}

func raiseTop(ctx context.Context, tx Tx, run events.RunID, top uint64) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE run_folds SET top_seq = $2, top_at = $3 WHERE run_id = $1 AND top_seq < $2`, run, top, now); err != nil {
		return fmt.Errorf("raise top of run %s: %w", run, err)
	}
	return nil
}

// contiguousTop is the highest sequence up to which the archive has no gap.
func contiguousTop(ctx context.Context, tx Tx, run events.RunID) (uint64, error) {
	var n uint64
	err := tx.QueryRow(ctx, `
		SELECT coalesce(min(e.seq), 0) FROM events e
		WHERE e.run_id = $1 AND e.seq >= (SELECT folded_seq FROM run_folds WHERE run_id = $1)
		AND NOT EXISTS (SELECT 1 FROM events n WHERE n.run_id = e.run_id AND n.seq = e.seq + 1)`, run).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read top of run %s: %w", run, err)
	}
	return n, nil
}
