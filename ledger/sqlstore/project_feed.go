package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
)

// feedPerRun bounds what one run gets of a round, so that a busy one does not
// keep others waiting.
const feedPerRun = 200

// FeedLease implements ledger.Projection.
func (s *Store) FeedLease(ctx context.Context, holder string, ttl time.Duration) (held bool, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `
			INSERT INTO feed_lease (one, holder, until) VALUES (1, $1, $2)
			ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE feed_lease.holder = excluded.holder OR feed_lease.until <= $3`, holder, now.Add(ttl), now)
		held = n == 1 && ttl > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("lease the feed for %q: %w", holder, err)
	}
	return held, nil
}

// Unfed implements ledger.Projection. It goes round over the runs.
func (s *Store) Unfed(ctx context.Context, limit int) ([]events.Sealed, error) {
	s.projecting.mu.Lock()
	after := s.projecting.unfed
	s.projecting.mu.Unlock()
	es, err := s.unfed(ctx, after, max(limit, 1))
	if err == nil && len(es) == 0 && !after.IsZero() {
		es, err = s.unfed(ctx, events.RunID{}, max(limit, 1))
	}
	if err != nil {
		return nil, fmt.Errorf("read what the feed lacks: %w", err)
	}
	s.projecting.mu.Lock()
	s.projecting.unfed = events.RunID{}
	if len(es) > 0 {
		s.projecting.unfed = es[len(es)-1].Envelope().RunID
	}
	s.projecting.mu.Unlock()
	return es, nil
}

func (s *Store) unfed(ctx context.Context, after events.RunID, limit int) (es []events.Sealed, err error) {
	type span struct {
		run         events.RunID
		fed, folded uint64
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		es = nil
		rows, err := tx.Query(ctx, `
			SELECT run_id, fed_seq, folded_seq FROM run_folds WHERE fed_seq < folded_seq AND run_id > $1 ORDER BY run_id LIMIT $2`, firstID(after), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		var spans []span
		for rows.Next() {
			var p span
			if err := rows.Scan(&p.run, &p.fed, &p.folded); err != nil {
				return err
			}
			spans = append(spans, p)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		for _, p := range spans {
			if len(es) >= limit {
				return nil
			}
			page, err := readArchive(ctx, tx, p.run, p.fed+1, p.folded, min(feedPerRun, limit-len(es)))
			if err != nil && !damaged(err) {
				return err
			}
			if err != nil { // what was read before it is whole; verify names the rest
				s.cfg.Logger.ErrorContext(ctx, "the feed of a run stops at a damaged event", "run", p.run, "error", err)
			}
			es = append(es, page...)
		}
		return nil
	})
	return es, err
}

// Fed implements ledger.Projection.
func (s *Store) Fed(ctx context.Context, es []events.Sealed) error {
	last := map[events.RunID]uint64{}
	for _, e := range es {
		env := e.Envelope()
		last[env.RunID] = max(last[env.RunID], env.Seq)
	}
	ids := make([]events.RunID, 0, len(last))
	for run := range last {
		ids = append(ids, run)
	}
	sortRuns(ids)
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		for _, run := range ids { // in this order everybody locks them
			if _, err := tx.Exec(ctx, `UPDATE run_folds SET fed_seq = $2 WHERE run_id = $1 AND fed_seq < $2`, run, last[run]); err != nil {
				return fmt.Errorf("run %s: %w", run, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("move the feed on over %d events: %w", len(es), err)
	}
	return nil
}

// firstID is what a keyset over run ids starts after: a zero id would be NULL.
func firstID(after events.RunID) events.RunID {
	if after.IsZero() {
		return events.RunID{len(after) - 1: 1}
	}
	return after
}

// lastID is what a keyset that goes down starts before.
func lastID(before events.RunID) events.RunID {
	if before.IsZero() {
		return events.RunID(bytes.Repeat([]byte{0xff}, len(before)))
	}
	return before
}
