package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
)

// addFact seals p and inserts it as a fact of run, at the transaction's time.
// A fact with the same id is there once: then the stored one is kept and
// inserted is false. Nothing is inserted for an event that the archive has.
func (s *Store) addFact(ctx context.Context, tx Tx, run events.RunID, id events.ID, p events.Payload, trace string) (f events.Fact, inserted bool, err error) {
	data, err := s.cfg.Redactor.JSON(p)
	if err != nil {
		return events.Fact{}, false, fmt.Errorf("seal fact %s of run %s: %w", events.TypeOf(p), run, err)
	}
	f, err = events.NewFact(id, run, events.TypeOf(p), data, trace)
	if err != nil {
		return events.Fact{}, false, fmt.Errorf("run %s: %w", run, err)
	}
	return s.putFact(ctx, tx, f)
}

// putFact inserts a fact that is sealed already.
func (s *Store) putFact(ctx context.Context, tx Tx, f events.Fact) (events.Fact, bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return events.Fact{}, false, err
	}
	f.At = now
	n, err := tx.Exec(ctx, `
		INSERT INTO facts (run_id, event_id, type, version, trace, data, created_at)
		SELECT $1, $2, $3, $4, $5, $6, $7
		WHERE NOT EXISTS (SELECT 1 FROM events WHERE run_id = $1 AND event_id = $2)
		ON CONFLICT (run_id, event_id) DO NOTHING`,
		f.RunID, f.ID, f.Type, f.Version, f.Trace, []byte(f.Data), f.At)
	if err != nil {
		return events.Fact{}, false, fmt.Errorf("insert fact %s of run %s: %w", f.Type, f.RunID, err)
	}
	return f, n == 1, nil
}

// pendingFacts returns the facts of a run in insertion order.
func pendingFacts(ctx context.Context, tx Tx, run events.RunID) ([]events.Fact, error) {
	rows, err := tx.Query(ctx, `
		SELECT event_id, type, version, trace, data, created_at
		FROM facts WHERE run_id = $1 ORDER BY id`, run)
	if err != nil {
		return nil, fmt.Errorf("read facts of run %s: %w", run, err)
	}
	defer rows.Close()
	var fs []events.Fact
	for rows.Next() {
		f := events.Fact{RunID: run}
		var data []byte
		if err := rows.Scan(&f.ID, &f.Type, &f.Version, &f.Trace, &data, &f.At); err != nil {
			return nil, fmt.Errorf("read facts of run %s: %w", run, err)
		}
		f.Data = data
		fs = append(fs, f)
	}
	return fs, rows.Err()
}

// dropRecordedFacts deletes the facts of a run whose event is in the archive,
// whoever put it there. Facts are few and events many, and a database that takes
// them for a join may read all of the run's: so each fact is looked up.
func dropRecordedFacts(ctx context.Context, tx Tx, run events.RunID) error {
	if bug.On(bug.FactsTrusted) {
		return tx.Later(ctx, "delete all facts", `DELETE FROM facts WHERE run_id = $1`, run)
	}
	return tx.Later(ctx, fmt.Sprintf("delete recorded facts of run %s", run), `
		DELETE FROM facts WHERE run_id = $1
		AND (SELECT count(*) FROM events e WHERE e.run_id = $1 AND e.event_id = facts.event_id) > 0`, run)
}
