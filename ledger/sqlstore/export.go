package sqlstore

import (
	"context"
	"fmt"
	"math"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func exportWhere(f ledger.ExportFilter) where {
	var w where
	for _, c := range []struct{ column, value string }{
		{"tenant", f.Tenant},
		{"session_id", f.Session},
		{"owner", f.Owner},
		{"agent", f.Agent},
	} {
		if c.value != "" {
			w.add("r."+c.column+" = $%d", c.value)
		}
	}
	if !f.Run.IsZero() {
		w.add("r.id = $%d", f.Run)
	}
	if !f.Upto.IsZero() {
		w.add("r.id <= $%d", f.Upto)
	}
	if f.Since.UnixMilli() > 0 { // earlier there are no ids
		w.add("r.id >= $%d", firstOf(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("r.id < $%d", firstOf(f.Until))
	}
	if f.Tool != "" {
		w.add("EXISTS (SELECT 1 FROM tool_call_records c WHERE c.run_id = r.id AND c.tool = $%d)", f.Tool)
	}
	return w
}

// ExportSize implements ledger.Exports.
func (s *Store) ExportSize(ctx context.Context, f ledger.ExportFilter) (size ledger.ExportSize, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		size = ledger.ExportSize{}
		w := exportWhere(f)
		if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(CAST(sum(f.top_seq) AS bigint), 0) FROM runs r LEFT JOIN run_folds f ON f.run_id = r.id`+
			w.String(), w.args...).Scan(&size.Runs, &size.Events); err != nil || size.Runs == 0 {
			return err
		}
		return tx.QueryRow(ctx, `SELECT r.id FROM runs r`+w.String()+` ORDER BY r.id DESC LIMIT 1`, w.args...).Scan(&size.Last)
	})
	if err != nil {
		return size, fmt.Errorf("count what is written out: %w", err)
	}
	return size, nil
}

// ExportRuns implements ledger.Exports.
func (s *Store) ExportRuns(ctx context.Context, f ledger.ExportFilter, after events.RunID, limit int) (list []ledger.ExportRun, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		w := exportWhere(f)
		w.add("r.id > $%d", firstID(after))
		n := w.arg(limitOf(limit))
		// The page first, as in Summaries.
		rows, err := tx.Query(ctx, `SELECT `+runColumns+`, coalesce(f.folded_seq, 0), `+optionalTotals+` FROM (SELECT * FROM runs r`+
			w.String()+fmt.Sprintf(` ORDER BY r.id LIMIT $%d`, n)+`) r
			LEFT JOIN run_summaries s ON s.run_id = r.id LEFT JOIN run_folds f ON f.run_id = r.id ORDER BY r.id`, w.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t ledger.Totals
			var folded uint64
			run, err := scanRun(rows, append([]any{&folded}, totalsDest(&t)...)...)
			if err != nil {
				return err
			}
			list = append(list, ledger.ExportRun{Summary: summary(run, t), Folded: folded})
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read runs to write out: %w", err)
	}
	return list, nil
}

// ExportEvents implements ledger.Exports.
func (s *Store) ExportEvents(ctx context.Context, run events.RunID, after uint64, limit int) (page []events.Sealed, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) (err error) {
		page, err = readArchive(ctx, tx, run, after+1, math.MaxInt64, limitOf(limit))
		return err
	})
	return page, err
}

// ExportCalls implements ledger.Exports.
func (s *Store) ExportCalls(ctx context.Context, run events.RunID, tool string, after, through uint64, limit int) (list []ledger.CallRecord, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		_, folded, _, _, err := foldState(ctx, tx, run)
		if err != nil {
			return err
		}
		if folded < through {
			return fmt.Errorf("it is folded to seq %d and was to %d: somebody rebuilds it; do it again when that has ended", folded, through)
		}
		var w where
		w.add("c.run_id = $%d", run)
		w.add("c.seq > $%d", after)
		w.add("c.seq <= $%d", through)
		if tool != "" {
			w.add("c.tool = $%d", tool)
		}
		n := w.arg(limitOf(limit))
		rows, err := tx.Query(ctx, `SELECT `+callColumns+` FROM tool_call_records c`+w.String()+fmt.Sprintf(` ORDER BY c.seq LIMIT $%d`, n), w.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c, err := scanCall(rows)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read calls of run %s to write out: %w", run, err)
	}
	return list, nil
}
