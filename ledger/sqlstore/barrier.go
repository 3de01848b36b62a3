package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
)

// holder is the runs row of a barrier, locked.
type holder struct {
	run  ledger.Run
	now  time.Time // read after the row lock
	left time.Duration
}

// lockHolder locks the run of l and checks that l still holds it. With
// ledger.ErrFenced it also returns the run as it is.
func (s *Store) lockHolder(ctx context.Context, tx Tx, l ledger.Lease) (holder, error) {
	r, err := lockRun(ctx, tx, l.RunID)
	if err != nil {
		return holder{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return holder{}, err
	}
	if r.Epoch != l.Epoch && !bug.On(bug.NoFence) || r.LeaseUntil.IsZero() || !r.LeaseUntil.After(now) {
		return holder{run: r, now: now}, fmt.Errorf("%s: %w", fencedBecause(l, r, now), ledger.ErrFenced)
	}
	return holder{run: r, now: now, left: r.LeaseUntil.Sub(now)}, nil
}

func fencedBecause(l ledger.Lease, r ledger.Run, now time.Time) string {
	switch {
	case r.Epoch != l.Epoch:
		return fmt.Sprintf("epoch %d of worker %q, now epoch %d of %q", l.Epoch, l.Worker, r.Epoch, r.Worker)
	case r.LeaseUntil.IsZero():
		return fmt.Sprintf("epoch %d of worker %q has given its lease back", l.Epoch, l.Worker)
	}
	return fmt.Sprintf("the lease of epoch %d of worker %q ran out %s ago: a heartbeat renews it if nobody has taken the run", l.Epoch, l.Worker, now.Sub(r.LeaseUntil))
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
	fold, err := lockFold(ctx, tx, l.RunID)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if err := checkPrefix(ctx, tx, l, p, fold); err != nil {
		return err
	}
	if err := s.insertEvents(ctx, tx, p); err != nil {
		if errors.Is(err, errFork) {
			s.cfg.Logger.ErrorContext(ctx, "fork refused: another event stands at this sequence", "run", l.RunID, "epoch", l.Epoch, "error", err)
			return fmt.Errorf("%w: %w", ledger.ErrFenced, err)
		}
		return err
	}
	if last := p[len(p)-1].Envelope().Seq; last > fold.top {
		return tx.Later(ctx, fmt.Sprintf("raise top of run %s", l.RunID),
			`UPDATE run_folds SET top_seq = $2, top_at = $3 WHERE run_id = $1 AND top_seq < $2`, l.RunID, last, now)
	}
	return nil
}

// checkPrefix refuses events that their holder cannot have numbered: of another
// run or epoch, not beyond the epoch's base, with a gap, or not right behind
// what the archive has.
func checkPrefix(ctx context.Context, tx Tx, l ledger.Lease, p ledger.Prefix, fold position) error {
	var base uint64
	err := tx.QueryRow(ctx, `SELECT base_seq FROM run_epochs WHERE run_id = $1 AND epoch = $2`, l.RunID, l.Epoch).Scan(&base)
	if errors.Is(err, ErrNoRows) {
		return fmt.Errorf("prefix of run %s: epoch %d has no base: call Base before the first event", l.RunID, l.Epoch)
	}
	if err != nil {
		return fmt.Errorf("read base of run %s: %w", l.RunID, err)
	}
	for i, e := range p {
		v := e.Envelope()
		if v.RunID != l.RunID || v.Epoch != l.Epoch || v.Seq <= base || (i > 0 && (v.Seq != p[i-1].Envelope().Seq+1 || v.Prev != p[i-1].Hash())) {
			return fmt.Errorf("prefix of run %s epoch %d from base %d: event %d is of run %s epoch %d seq %d, or does not follow the one before it",
				l.RunID, l.Epoch, base, i, v.RunID, v.Epoch, v.Seq)
		}
	}
	// The holder leaves out only what it knows to be in the archive. A gap there
	// means that it knows wrongly.
	first, from := p[0].Envelope().Seq, max(base, fold.folded)
	if first <= from+1 {
		return nil
	}
	var n uint64
	err = tx.QueryRow(ctx, `SELECT count(*) FROM events WHERE run_id = $1 AND seq > $2 AND seq < $3`, l.RunID, from, first).Scan(&n)
	if err != nil {
		return fmt.Errorf("look for gaps in run %s: %w", l.RunID, err)
	}
	if n != first-1-from {
		return fmt.Errorf("prefix of run %s: it starts at %d, but the archive has only %d of the %d events after %d", l.RunID, first, n, first-1-from, from)
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

// position is how far the archive of a run has come.
type position struct {
	folded uint64 // everything up to here is in the archive and folded
	top    uint64 // the highest sequence in the archive
}

// lockFold locks the run's row of run_folds, making it first if need be: the
// lock of everything that writes events of a run.
func lockFold(ctx context.Context, tx Tx, run events.RunID) (at position, err error) {
	const q = `SELECT folded_seq, top_seq FROM run_folds WHERE run_id = $1 FOR UPDATE`
	err = tx.QueryRow(ctx, q, run).Scan(&at.folded, &at.top)
	if errors.Is(err, ErrNoRows) {
		if err = tx.Later(ctx, "make it", `INSERT INTO run_folds (run_id) VALUES ($1) ON CONFLICT DO NOTHING`, run); err == nil {
			err = tx.QueryRow(ctx, q, run).Scan(&at.folded, &at.top)
		}
	}
	if err != nil {
		return position{}, fmt.Errorf("lock fold of run %s: %w", run, err)
	}
	return at, nil
}

// contiguousTop is the highest sequence up to which the archive has every event
// from the first on; 0 if it lacks the first.
func contiguousTop(ctx context.Context, tx Tx, run events.RunID) (uint64, error) {
	var n uint64
	err := tx.QueryRow(ctx, `
		SELECT coalesce(min(e.seq), 0) FROM events e
		WHERE e.run_id = $1 AND EXISTS (SELECT 1 FROM events f WHERE f.run_id = $1 AND f.seq = 1)
		AND NOT EXISTS (SELECT 1 FROM events n WHERE n.run_id = $1 AND n.seq = e.seq + 1)`, run).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read top of run %s: %w", run, err)
	}
	return n, nil
}
