package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/events"
)

// Rebuild implements ledger.Projection. Every run is dropped and folded again
// as far as one transaction goes, then further in parts; the feed keeps its
// position. Reads meanwhile see a run folded less far, never wrongly.
func (s *Store) Rebuild(ctx context.Context, run events.RunID) error {
	return s.RebuildWatched(ctx, run, func(int64) {})
}

// RebuildWatched implements ledger.Watched.
func (s *Store) RebuildWatched(ctx context.Context, run events.RunID, done func(events int64)) error {
	var sum int64
	folded := func(n int) { sum += int64(n); done(sum) }
	if !run.IsZero() {
		if err := s.rebuild(ctx, run, folded); err != nil {
			return err
		}
		return s.recount(ctx, runDayOf(run))
	}
	for after := (events.RunID{}); ; {
		runs, err := s.foldedRuns(ctx, after)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			days, err := s.callDays(ctx)
			if err != nil {
				return err
			}
			return s.recount(ctx, days...)
		}
		for _, r := range runs {
			if err := s.rebuild(ctx, r, folded); err != nil {
				return err
			}
		}
		after = runs[len(runs)-1]
	}
}

func (s *Store) foldedRuns(ctx context.Context, after events.RunID) (runs []events.RunID, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		runs, err = scanRuns(tx.Query(ctx, `SELECT run_id FROM run_folds WHERE run_id > $1 ORDER BY run_id LIMIT 500`, firstID(after)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list runs to rebuild: %w", err)
	}
	return runs, nil
}

func scanRuns(rows Rows, err error) ([]events.RunID, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var runs []events.RunID
	for rows.Next() {
		var r events.RunID
		if err := rows.Scan(&r); err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, rows.Err()
}

func (s *Store) rebuild(ctx context.Context, run events.RunID, folded func(events int)) error {
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		if _, err := lockFold(ctx, tx, run); err != nil {
			return err
		}
		counted, err := uncount(ctx, tx, run)
		if err != nil {
			return err
		}
		for _, table := range []string{"tool_call_records", "model_calls", "artifacts", "artifact_versions", "run_summaries"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE run_id = $1`, run); err != nil {
				return fmt.Errorf("drop %s: %w", table, err)
			}
		}
		_, err = tx.Exec(ctx, `
			UPDATE run_folds SET folded_seq = 0, open = $2,
				top_seq = (SELECT coalesce(max(seq), 0) FROM events WHERE run_id = $1),
				incomplete = CASE WHEN incomplete LIKE $3 THEN incomplete ELSE '' END
			WHERE run_id = $1`, run, []byte{}, "%"+foldFork+"%")
		if err != nil {
			return err
		}
		return counted.write(ctx, tx)
	})
	for err == nil {
		var n int
		n, err = s.foldRuns(ctx, []events.RunID{run})
		folded(n)
		if n == 0 {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("rebuild run %s: %w", run, err)
	}
	return nil
}

// sortRuns puts ids into the order in which everybody locks them.
func sortRuns(ids []events.RunID) {
	slices.SortFunc(ids, func(a, b events.RunID) int { return bytes.Compare(a[:], b[:]) })
}
