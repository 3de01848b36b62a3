package sqlstore

import (
	"context"
	"errors"
	"fmt"
)

// Maintainer is a [DB] that has maintenance of its own.
type Maintainer interface {
	// Maintain does what is due and says what it did.
	Maintain(ctx context.Context) ([]string, error)
}

// Maintain implements ledger.Maintenance.
func (s *Store) Maintain(ctx context.Context) (done []string, err error) {
	if m, ok := s.db.(Maintainer); ok {
		done, err = m.Maintain(ctx)
	}
	var n int64
	werr := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err = tx.Exec(ctx, `
			DELETE FROM journal_positions WHERE at < $1 AND reader <> ''
			AND sequence < (SELECT max(p.sequence) FROM journal_positions p WHERE p.incarnation = journal_positions.incarnation)`, now.Add(-positionAge))
		return err
	})
	if n > 0 {
		done = append(done, fmt.Sprintf("forgot the positions of %d projectors that are gone", n))
	}
	if err = errors.Join(err, werr); err != nil {
		return done, fmt.Errorf("maintain the ledger: %w", err)
	}
	return done, nil
}
