package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// foldRun folds a run as far as its archive has no gap.
func (b *batchTx) foldRun(ctx context.Context, w *runWork) error {
	next := w.folded + 1
	if b.mode == archiving || next > w.top || !b.marking && strings.Contains(w.incomplete, foldRefused) {
		return nil
	}
	var page []events.Sealed
	for pages := 0; next <= w.top; next++ {
		a := w.present[next]
		if a == nil {
			if len(page) == 0 && next <= w.wasTop {
				if pages++; pages > foldPages {
					break
				}
				var err error
				if page, err = readArchive(ctx, b.tx, w.run, next, w.wasTop, foldPage); err != nil && !damaged(err) {
					return err
				} else if err != nil && len(page) == 0 {
					w.mark(fmt.Sprintf("seq %d%s%s", next, foldUnreadable, storable(err.Error())))
					break
				}
			}
			if len(page) == 0 || page[0].Envelope().Seq != next {
				if b.marking {
					w.mark(fmt.Sprintf("seq %d%sthe archive goes on at a later one", next, foldMissing))
				}
				break
			}
			a = &arrival{sealed: page[0]}
			a.event, a.unknown = page[0].Decode()
		}
		if len(page) > 0 && page[0].Envelope().Seq == next {
			page = page[1:]
		}
		if a.unknown != nil {
			w.mark(fmt.Sprintf("seq %d%s%s", next, foldUnreadable, storable(a.unknown.Error())))
			break
		}
		if err := b.apply(ctx, w, a.event); err != nil {
			return err
		}
	}
	return nil
}

func (b *batchTx) apply(ctx context.Context, w *runWork, e events.Event) error {
	if w.fold == nil {
		w.fold = b.s.projecting.folds.take(w.run, w.folded)
	}
	if w.fold == nil {
		var err error
		if w.fold, err = loadFold(ctx, b.tx, w.run, w.folded, w.open); err != nil {
			return err
		}
	}
	if err := w.fold.Apply(e, &b.rows); err != nil {
		return err
	}
	w.folded, w.changed = w.fold.Seq, true
	b.out.Folded++
	if c, ok := billedIn(e); ok {
		b.billed = append(b.billed, c)
	}
	return nil
}

// finish writes what the folds gave and where they stand.
func (b *batchTx) finish(ctx context.Context) error {
	for _, p := range b.bad {
		if w := b.runs[p.run]; w != nil && p.seq > w.folded {
			w.mark(fmt.Sprintf("seq %d%s%s", p.seq, foldPoison, storable(b.s.cfg.Redactor.String(p.reason))))
		}
	}
	n, err := b.s.putQuarantine(ctx, b.tx, b.bad)
	if err != nil {
		return err
	}
	b.out.Quarantined += n
	var folds []*ledger.Fold
	var rows [][]any
	for _, w := range b.order {
		w.heal()
		if w.fold != nil {
			folds = append(folds, w.fold)
			w.open = w.fold.Open()
		}
		if !w.changed {
			continue
		}
		var rose time.Time
		if w.top > w.wasTop {
			rose = b.now
		}
		rows = append(rows, []any{w.run, w.folded, w.top, rose, w.incomplete, w.open})
	}
	if err := insertRows(ctx, b.tx, b.rows, folds); err != nil {
		return err
	}
	if err := b.s.settleBudgets(ctx, b.tx, ledger.SettledByEvidence, b.billed...); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	_, err = b.tx.InsertMany(ctx, "run_folds", []string{"run_id", "folded_seq", "top_seq", "top_at", "incomplete", "open"}, rows, `
		ON CONFLICT (run_id) DO UPDATE SET folded_seq = excluded.folded_seq, top_seq = excluded.top_seq,
		top_at = coalesce(excluded.top_at, run_folds.top_at), incomplete = excluded.incomplete, open = excluded.open`)
	if err != nil {
		return fmt.Errorf("move %d folds on: %w", len(rows), err)
	}
	return b.costs().write(ctx, b.tx)
}

// FoldBehind implements ledger.Projection. It goes round over the runs that are
// behind, so that those which cannot be folded do not keep others waiting.
func (s *Store) FoldBehind(ctx context.Context, age time.Duration, limit int) (int, error) {
	s.projecting.mu.Lock()
	after := s.projecting.behind
	s.projecting.mu.Unlock()
	runs, err := s.behind(ctx, after, age, limit)
	if err == nil && len(runs) == 0 && !after.IsZero() {
		runs, err = s.behind(ctx, events.RunID{}, age, limit)
	}
	if err != nil || len(runs) == 0 {
		return 0, err
	}
	s.projecting.mu.Lock()
	s.projecting.behind = runs[len(runs)-1]
	s.projecting.mu.Unlock()
	return s.foldRuns(ctx, runs)
}

// foldRuns folds runs in one transaction, or one by one if that is refused.
func (s *Store) foldRuns(ctx context.Context, runs []events.RunID) (int, error) {
	p, err := s.projectOnce(ctx, nil, nil, runs, carefully)
	if err == nil || !s.refused(ctx, err) {
		return p.Folded, err
	}
	if len(runs) == 1 {
		s.cfg.Logger.ErrorContext(ctx, "the database refuses what a run folds to", "run", runs[0], "error", s.cfg.Redactor.Error(err))
		return 0, s.markRefused(ctx, runs[0], err)
	}
	folded := 0
	for _, r := range runs {
		n, err := s.foldRuns(ctx, []events.RunID{r})
		if err != nil {
			return folded, err
		}
		folded += n
	}
	return folded, nil
}

func (s *Store) behind(ctx context.Context, after events.RunID, age time.Duration, limit int) (runs []events.RunID, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		runs = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT run_id FROM run_folds WHERE folded_seq < top_seq AND top_at <= $1 AND run_id > $2 ORDER BY run_id LIMIT $3`,
			now.Add(-age), firstID(after), max(limit, 1))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r events.RunID
			if err := rows.Scan(&r); err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("find runs behind: %w", err)
	}
	return runs, nil
}
