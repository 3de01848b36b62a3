package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Base implements ledger.Runs: step (c) of a takeover.
func (s *Store) Base(ctx context.Context, l ledger.Lease) (ledger.Base, error) {
	var base ledger.Base
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		h, err := s.lockHolder(ctx, tx, l)
		if err != nil {
			return err
		}
		if base, err = s.writeBase(ctx, tx, l, h.now); err != nil {
			return err
		}
		if err := forgetCrashes(ctx, tx, l); err != nil {
			return err
		}
		base.Facts, err = pendingFacts(ctx, tx, l.RunID)
		return err
	})
	if err == nil {
		if err = fault.Err("epoch.after_commit"); err != nil {
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
	}
	if err != nil {
		return ledger.Base{}, fmt.Errorf("write base of epoch %d of run %s: %w", l.Epoch, l.RunID, err)
	}
	return base, nil
}

// writeBase fixes where the epoch of l starts, sets aside what the archive has
// beyond it and deletes recorded facts. The run is locked and its epoch is l's.
// A base that stands is returned as it is.
func (s *Store) writeBase(ctx context.Context, tx Tx, l ledger.Lease, now time.Time) (ledger.Base, error) {
	if _, err := lockFold(ctx, tx, l.RunID); err != nil {
		return ledger.Base{}, err
	}
	base, err := s.standingBase(ctx, tx, l)
	if errors.Is(err, ErrNoRows) {
		base, err = s.makeBase(ctx, tx, l, now)
	}
	if err != nil {
		return ledger.Base{}, err
	}
	return base, dropRecordedFacts(ctx, tx, l.RunID)
}

func (s *Store) standingBase(ctx context.Context, tx Tx, l ledger.Lease) (ledger.Base, error) {
	var b ledger.Base
	err := tx.QueryRow(ctx, `SELECT base_seq, base_hash FROM run_epochs WHERE run_id = $1 AND epoch = $2`, l.RunID, l.Epoch).Scan(&b.Seq, &b.Hash)
	if err != nil {
		return ledger.Base{}, fmt.Errorf("read base: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT count(*) FROM set_aside WHERE run_id = $1 AND reason = $2`, l.RunID, beyondBase(l.Epoch)).Scan(&b.SetAside)
	if err != nil {
		return ledger.Base{}, fmt.Errorf("count set-aside events: %w", err)
	}
	return b, nil
}

// beyondBase is the reason of rows that the takeover of an epoch set aside.
func beyondBase(epoch uint64) string { return fmt.Sprintf("beyond the base of epoch %d", epoch) }

func (s *Store) makeBase(ctx context.Context, tx Tx, l ledger.Lease, now time.Time) (ledger.Base, error) {
	var top uint64
	if l.Epoch > 1 { // before the first holder nobody has numbered an event
		var err error
		if top, err = contiguousTop(ctx, tx, l.RunID); err != nil {
			return ledger.Base{}, err
		}
	}
	b := ledger.Base{Seq: top, Hash: events.Genesis(l.RunID)}
	if top > 0 {
		if err := tx.QueryRow(ctx, `SELECT hash FROM events WHERE run_id = $1 AND seq = $2`, l.RunID, top).Scan(&b.Hash); err != nil {
			return ledger.Base{}, fmt.Errorf("read event %d: %w", top, err)
		}
	}
	err := tx.Later(ctx, "insert base", `INSERT INTO run_epochs (run_id, epoch, base_seq, base_hash, worker, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		l.RunID, l.Epoch, b.Seq, b.Hash, l.Worker, now)
	if err != nil || l.Epoch == 1 {
		return b, err
	}
	beyond, err := eventsBeyond(ctx, tx, l.RunID, top)
	if err != nil || len(beyond) == 0 {
		return b, err
	}
	// They leave the archive first: a fact is not inserted for an event that is there.
	if _, err := tx.Exec(ctx, `DELETE FROM events WHERE run_id = $1 AND seq > $2`, l.RunID, top); err != nil {
		return ledger.Base{}, fmt.Errorf("delete events beyond %d: %w", top, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE run_folds SET top_seq = $2 WHERE run_id = $1`, l.RunID, top); err != nil {
		return ledger.Base{}, fmt.Errorf("lower top to %d: %w", top, err)
	}
	b.SetAside = len(beyond)
	if err := s.setAside(ctx, tx, beyond, beyondBase(l.Epoch)); err != nil {
		return ledger.Base{}, err
	}
	return b, s.settleBudgets(ctx, tx, ledger.SettledByEvidence, billedLate(beyond)...)
}

func eventsBeyond(ctx context.Context, tx Tx, run events.RunID, seq uint64) ([]events.Sealed, error) {
	rows, err := tx.Query(ctx, `SELECT bytes, hash FROM events WHERE run_id = $1 AND seq > $2 ORDER BY seq`, run, seq)
	if err != nil {
		return nil, fmt.Errorf("read events beyond %d: %w", seq, err)
	}
	defer rows.Close()
	var out []events.Sealed
	for rows.Next() {
		var b []byte
		var h events.Hash
		if err := rows.Scan(&b, &h); err != nil {
			return nil, fmt.Errorf("read events beyond %d: %w", seq, err)
		}
		e, err := events.Parse(b, h)
		if err != nil {
			return nil, fmt.Errorf("read events beyond %d: the archive was changed: %w", seq, err)
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// setAside keeps events that an epoch made invalid, once each. What was billed
// or tells an outcome becomes a fact under its own id, its data unchanged: the
// next holder records it, and it counts as cost.
func (s *Store) setAside(ctx context.Context, tx Tx, es []events.Sealed, reason string) error {
	if len(es) == 0 {
		return nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	rows := make([][]any, len(es))
	for i, e := range es {
		v := e.Envelope()
		rows[i] = []any{v.RunID, v.Seq, v.Epoch, v.ID, e.Hash(), e.Bytes(), reason, now}
	}
	_, err = tx.InsertMany(ctx, "set_aside",
		[]string{"run_id", "seq", "epoch", "event_id", "hash", "bytes", "reason", "set_aside_at"}, rows, "ON CONFLICT DO NOTHING")
	if err != nil {
		return fmt.Errorf("set aside %d events: %w", len(es), err)
	}
	for _, e := range es {
		v := e.Envelope()
		d, err := e.Decode()
		if err != nil {
			s.cfg.Logger.ErrorContext(ctx, "set aside an event that cannot be read: if it was billed, its cost is missing", "run", v.RunID, "seq", v.Seq, "error", err)
			continue
		}
		if !counts(d.Data) || bug.On(bug.CostLost) {
			continue
		}
		data, err := e.Data()
		if err != nil {
			return err
		}
		f := events.Fact{ID: v.ID, RunID: v.RunID, Type: v.Type, Version: v.Version, Trace: v.Trace, Data: data}
		if _, _, err := s.putFact(ctx, tx, f); err != nil {
			return err
		}
	}
	return nil
}

// counts reports whether an event carries a cost or the outcome of an effect.
func counts(p events.Payload) bool {
	switch p := p.(type) {
	case events.ModelCallFinished:
		return true
	case events.ModelCallError:
		return p.Usage != nil || p.Cost != nil
	case events.ToolExecutionFinished:
		return !p.Repeated && (p.Ref != nil || p.Result.Cost != nil)
	case events.ToolExecutionError:
		return !p.Repeated && (p.Ref != nil || p.Result.Cost != nil)
	case events.EffectResolved:
		return true
	}
	return false
}
