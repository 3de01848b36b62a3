package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Known implements ledger.Reconciliation.
func (s *Store) Known(ctx context.Context, batch []ledger.Incoming) (k ledger.Known, err error) {
	var runs []events.RunID
	var hashes []events.Hash
	var tokens []events.ID
	span := map[events.RunID][2]uint64{} // of sequences
	for _, in := range batch {
		for _, e := range in.Events {
			v := e.Envelope()
			r, ok := span[v.RunID]
			if !ok {
				runs = append(runs, v.RunID)
				r = [2]uint64{v.Seq, v.Seq}
			}
			span[v.RunID] = [2]uint64{min(r[0], v.Seq), max(r[1], v.Seq)}
			hashes = append(hashes, e.Hash())
			tokens = append(tokens, tokenOf(e)...)
		}
	}
	sortRuns(runs)
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		k = ledger.Known{
			Runs: map[events.RunID]bool{}, Epochs: map[events.RunID]map[uint64]ledger.Base{}, Events: map[events.RunID]map[uint64]events.Hash{},
			Aside: map[events.Hash]bool{}, Attempts: map[events.ID]bool{},
		}
		if err := sameServer(ctx, tx); err != nil {
			return err
		}
		got, err := scanRuns(tx.Query(ctx, `SELECT id FROM runs WHERE `+tx.InIDs("id", 1), runs))
		if err != nil {
			return err
		}
		for _, r := range got {
			k.Runs[r] = true
			if k.Events[r], err = hashesBetween(ctx, tx, r, span[r][0], span[r][1]); err != nil {
				return err
			}
		}
		return errors.Join(knownEpochs(ctx, tx, runs, k), knownAside(ctx, tx, hashes, k), knownAttempts(ctx, tx, tokens, k))
	})
	if err != nil {
		return ledger.Known{}, fmt.Errorf("compare %d messages: %w", len(batch), err)
	}
	return k, nil
}

// tokenOf is the attempt that an event tells of, if any.
func tokenOf(e events.Sealed) []events.ID {
	d, err := e.Decode()
	if err != nil {
		return nil
	}
	var ref *events.EffectRef
	switch p := d.Data.(type) {
	case events.ToolExecutionStarted:
		ref = p.Ref
	case events.ToolExecutionFinished:
		ref = p.Ref
	case events.ToolExecutionError:
		ref = p.Ref
	case events.EffectResolved:
		ref = &p.Ref
	}
	if ref == nil {
		return nil
	}
	return []events.ID{ref.Token}
}

// each calls scan for every row.
func each(rows Rows, err error, scan func(Row) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func hashesBetween(ctx context.Context, tx Tx, run events.RunID, first, last uint64) (map[uint64]events.Hash, error) {
	out := map[uint64]events.Hash{}
	rows, err := tx.Query(ctx, `SELECT seq, hash FROM events WHERE run_id = $1 AND seq >= $2 AND seq <= $3`, run, first, last)
	return out, each(rows, err, func(r Row) error {
		var seq uint64
		var h events.Hash
		err := r.Scan(&seq, &h)
		out[seq] = h
		return err
	})
}

func knownEpochs(ctx context.Context, tx Tx, runs []events.RunID, k ledger.Known) error {
	rows, err := tx.Query(ctx, `SELECT run_id, epoch, base_seq, base_hash FROM run_epochs WHERE `+tx.InIDs("run_id", 1), runs)
	return each(rows, err, func(r Row) error {
		var run events.RunID
		var epoch uint64
		var b ledger.Base
		err := r.Scan(&run, &epoch, &b.Seq, &b.Hash)
		if k.Epochs[run] == nil {
			k.Epochs[run] = map[uint64]ledger.Base{}
		}
		k.Epochs[run][epoch] = b
		return err
	})
}

func knownAside(ctx context.Context, tx Tx, hashes []events.Hash, k ledger.Known) error {
	rows, err := tx.Query(ctx, `SELECT hash FROM set_aside WHERE `+tx.InIDs("hash", 1), hashes)
	return each(rows, err, func(r Row) error {
		var h events.Hash
		err := r.Scan(&h)
		k.Aside[h] = true
		return err
	})
}

func knownAttempts(ctx context.Context, tx Tx, tokens []events.ID, k ledger.Known) error {
	rows, err := tx.Query(ctx, `
		SELECT a.token, a.outcome IN ('applied', 'not_applied') OR a.resolved <> '' OR e.state IN ('applied', 'not_applied', 'abandoned')
		FROM effect_attempts a JOIN effects e ON e.op_key = a.op_key WHERE `+tx.InIDs("a.token", 1), tokens)
	return each(rows, err, func(r Row) error {
		var token events.ID
		var settled bool
		err := r.Scan(&token, &settled)
		k.Attempts[token] = settled
		return err
	})
}

// takenSuffix marks the client key of a restored run whose own key was used again.
const takenSuffix = " (restored)"

// RestoreRun implements ledger.Reconciliation. The run waits as one whose
// worker has gone: whoever takes it over reads its history and goes on.
func (s *Store) RestoreRun(ctx context.Context, r ledger.LostRun) (detail string, err error) {
	q := r.Queued
	if q == nil {
		return "", fmt.Errorf("restore run %s: the journal does not have its first event", r.ID)
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		detail = "put back; lost: the digest of its input, its key for limits and how often it may be tried"
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var other events.RunID
		var epoch uint64
		err = tx.QueryRow(ctx, `SELECT id, epoch FROM runs WHERE tenant = $1 AND client_key = $2 FOR NO KEY UPDATE`, r.First.Tenant, q.ClientKey).Scan(&other, &epoch)
		key := q.ClientKey
		switch {
		case errors.Is(err, ErrNoRows):
		case err != nil:
			return fmt.Errorf("look for client key %q: %w", key, err)
		case other == r.ID:
			detail = "put back before"
			return nil
		default:
			// The client asked again. What that run has not begun yet shares the
			// effects of this one, as a retry would.
			key += takenSuffix + " " + r.ID.String()
			detail += fmt.Sprintf("; its client key was used again by run %s", other)
			n, err := tx.Exec(ctx, `UPDATE runs SET root_id = $2 WHERE id = $1 AND epoch = 0 AND root_id = id`, other, q.Root)
			if err != nil {
				return fmt.Errorf("join run %s: %w", other, err)
			}
			if n == 1 {
				detail += ", which shares its effects now"
			} else {
				detail += ", which has begun: compare what both did"
			}
		}
		var fork events.Fork
		if q.Fork != nil {
			fork = *q.Fork
		}
		requires := []string{"agent/" + q.Agent}
		var at events.SessionPlace
		if q.Session != nil {
			at, requires = *q.Session, append(requires, "sessions")
		}
		var guard json.RawMessage
		if q.Guard != nil {
			if guard, err = json.Marshal(q.Guard); err != nil {
				return err
			}
			if q.Fork == nil {
				fork.Effects = q.Guard.Effects
			}
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO runs (id, tenant, queue, agent, owner, session_id, root_id, parent_id, client_key, input_mac, input, requires, priority, trace,
				created_at, due_at, deadline_at, state, clean, epoch, lease_until, retry_of, attempt, schedule, fork_of, fork_seq, fork_effects, loop, guard, prompt,
				session_place, continues_run, continues_seq, continues_hash)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, 'running', $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
				$29, $30, $31, $32)
			ON CONFLICT (id) DO NOTHING`,
			r.ID, r.First.Tenant, q.Queue, q.Agent, q.Owner, r.First.SessionID, q.Root, q.Parent, key, []byte{}, q.Input,
			requires, q.Priority, r.First.Trace, stamp(q.QueuedAt), stamp(q.Deadline), false, r.Epoch, now,
			q.RetryOf, max(q.Attempt, 1), q.Schedule, fork.Run, fork.Seq, fork.Effects, q.Loop, guard, q.Prompt,
			at.Place, at.Run, at.Seq, at.Hash)
		if err != nil || at.Place == 0 {
			return err
		}
		return restorePlace(ctx, tx, r.First.Tenant, r.First.SessionID, q.Owner, at, now)
	})
	if err != nil {
		return "", fmt.Errorf("restore run %s: %w", r.ID, err)
	}
	return detail, nil
}

// RestoreEpochs implements ledger.Reconciliation.
func (s *Store) RestoreEpochs(ctx context.Context, run events.RunID, es []ledger.LostEpoch) error {
	if len(es) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if _, err := lockRun(ctx, tx, run); err != nil {
			return err
		}
		if _, err := lockFold(ctx, tx, run); err != nil {
			return err
		}
		for _, e := range es {
			_, err := tx.Exec(ctx, `
				INSERT INTO run_epochs (run_id, epoch, base_seq, base_hash, worker, created_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (run_id, epoch) DO NOTHING`, run, e.Epoch, e.Base.Seq, e.Base.Hash, e.Worker, stamp(e.At))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore %d epochs of run %s: %w", len(es), run, err)
	}
	return nil
}

// Reproject implements ledger.Reconciliation.
func (s *Store) Reproject(ctx context.Context, batch []ledger.Incoming) (ledger.Projected, error) {
	as, _ := s.prepare(ctx, batch) // what cannot be read is in quarantine already
	if len(as) == 0 {
		return ledger.Projected{}, nil
	}
	p, err := s.projectOnce(ctx, as, nil, nil, again)
	if err != nil {
		return p, fmt.Errorf("project %d events again: %w", len(as), err)
	}
	return p, s.release(ctx, as)
}

// release takes out of quarantine what is in the archive now: until its epoch
// was put back it looked like poison.
func (s *Store) release(ctx context.Context, as []arrival) error {
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		hashes := make([]events.Hash, len(as))
		for i, a := range as {
			hashes[i] = a.sealed.Hash()
		}
		_, err := tx.Exec(ctx, `DELETE FROM quarantine WHERE `+tx.InIDs("digest", 1)+` AND EXISTS (SELECT 1 FROM events e WHERE e.hash = quarantine.digest)`, hashes)
		return err
	})
}

// epochJump is how far reconciling raises epochs: beyond every claim that a lost
// database can have made.
const epochJump = 1_000_000

// RaiseEpochs implements ledger.Reconciliation.
func (s *Store) RaiseEpochs(ctx context.Context, moved map[events.RunID]uint64) (raised int64, err error) {
	ids := make([]events.RunID, 0, len(moved))
	for id := range moved {
		ids = append(ids, id)
	}
	sortRuns(ids)
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		raised = 0
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			// The history goes on beyond where its row stands: whoever takes it over sees where.
			// If it has one, its turn in a session had come.
			_, err := tx.Exec(ctx, `
				UPDATE runs SET epoch = $2, clean = $3, lease_until = $4, park_reason = '', park_detail = '', park_key = NULL, wake_at = NULL,
					parked_at = NULL, not_before = NULL, behind_at = NULL, state = CASE WHEN state = 'cancelling' THEN state ELSE 'running' END
				WHERE id = $1 AND epoch <= $2 AND state IN ('queued', 'running', 'parked', 'cancelling')`, id, moved[id], false, now)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE runs SET epoch = $2 WHERE id = $1 AND epoch < $2`, id, moved[id]); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE runs SET lease_until = $1 WHERE lease_until > $1 AND state IN ('queued', 'running', 'parked', 'cancelling')`, now)
		if err != nil {
			return fmt.Errorf("end leases: %w", err)
		}
		raised, err = tx.Exec(ctx, `UPDATE runs SET epoch = epoch + $1 WHERE state IN ('queued', 'running', 'parked', 'cancelling')`, int64(epochJump))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("raise epochs: %w", err)
	}
	return raised, nil
}
