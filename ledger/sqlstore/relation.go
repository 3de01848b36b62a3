package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// readRuns runs a query that selects runColumns.
func readRuns(ctx context.Context, tx Tx, q string, args ...any) ([]ledger.Run, error) {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []ledger.Run
	for rows.Next() {
		r, err := scanRun(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// listRuns is readRuns in a transaction of its own.
func (s *Store) listRuns(ctx context.Context, what, q string, args ...any) (list []ledger.Run, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list, err = readRuns(ctx, tx, q, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return list, nil
}

// Descendants implements ledger.Relations.
func (s *Store) Descendants(ctx context.Context, run events.RunID, limit int) ([]ledger.Run, error) {
	return s.listRuns(ctx, fmt.Sprintf("descendants of run %s", run), `
		SELECT `+runColumns+` FROM runs r WHERE r.id IN (
			SELECT c.id FROM runs c WHERE c.parent_id = $1 UNION SELECT f.id FROM runs f WHERE f.fork_of = $1
		) ORDER BY r.id LIMIT $2`, run, listed(limit))
}

// Holders implements ledger.Relations.
func (s *Store) Holders(ctx context.Context, queue string, limit int) (list []ledger.Run, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		list, err = readRuns(ctx, tx, `SELECT `+runColumns+` FROM runs r WHERE `+holding("$1")+` AND r.queue = $2 ORDER BY r.started_at, r.id LIMIT $3`,
			now.Add(-slotGrace), queue, listed(limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list who holds queue %q: %w", queue, err)
	}
	return list, nil
}

// KeepAct implements ledger.Relations.
func (s *Store) KeepAct(ctx context.Context, a ledger.Act) error {
	if a.Kind != actLedger || a.Verb == "" || a.By == "" {
		return fmt.Errorf("keep act %q on %s %q: want kind ledger, a verb and who", a.Verb, a.Kind, a.Name)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx Tx) error { return s.act(ctx, tx, a.Kind, a.Name, a.Verb, a.By, a.Detail) })
}

// Role implements ledger.Relations.
func (s *Store) Role(ctx context.Context) (role string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		role, err = roleOf(ctx, tx)
		return err
	})
	return role, err
}
