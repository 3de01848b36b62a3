package memorydb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
)

// Moment is a moment that was kept.
type Moment struct {
	ID     int64 // grows: none shows up behind one that was read
	Root   string
	Owner  string
	At     time.Time
	Moment memory.Moment
}

// Observe implements [memory.Writer]. Each call keeps a moment of its own: what
// is called again after an error may be there twice. Errors: [ErrErased].
func (s *Store) Observe(ctx context.Context, scope memory.Scope, m memory.Moment) error {
	err := s.observe(ctx, scope, m)
	if err != nil {
		return s.cfg.Redactor.Error(fmt.Errorf("keep a moment: %w", err))
	}
	return nil
}

func (s *Store) observe(ctx context.Context, scope memory.Scope, m memory.Moment) (err error) {
	if err := s.checkScope(scope); err != nil {
		return err
	}
	if m.Source, err = s.label("source", m.Source, ""); err != nil {
		return err
	}
	if m.Stream, err = s.label("stream", m.Stream, ""); err != nil {
		return err
	}
	clean, err := s.cfg.Redactor.JSON(m.Payload)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if len(clean.Bytes()) > maxText {
		return fmt.Errorf("a payload of %d bytes, at most %d are allowed", len(clean.Bytes()), maxText)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := enter(ctx, tx, scope); err != nil {
			return err
		}
		if err := queue(ctx, tx, scope.Tenant); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO memory_moments (tenant, root, owner, source, stream, payload, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			scope.Tenant, scope.Root, scope.Owner, m.Source, m.Stream, json.RawMessage(clean.Bytes()), now)
		return err
	})
}

// queue makes the moments of a tenant wait for each other until they are
// committed. PostgreSQL gives ids before that: a reader would go on behind a
// moment that it sees, and never see those with smaller ids that come later. The
// row is that of the owner without a name, who is never erased.
func queue(ctx context.Context, tx sqlstore.Tx, tenant string) error {
	if err := tx.Later(ctx, "name the tenant", `INSERT INTO memory_owners (tenant, owner) VALUES ($1, '') ON CONFLICT (tenant, owner) DO NOTHING`, tenant); err != nil {
		return err
	}
	var owner string
	if err := tx.QueryRow(ctx, `SELECT owner FROM memory_owners WHERE tenant = $1 AND owner = '' FOR UPDATE`, tenant).Scan(&owner); err != nil {
		return fmt.Errorf("wait for other moments: %w", err)
	}
	return nil
}

// Moments returns the moments of a tenant after one of them, at most limit, the
// oldest first; what is kept later has a greater id than all of them. It is for the host that makes notes of them.
func (s *Store) Moments(ctx context.Context, tenant string, after int64, limit int) (all []Moment, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		all = nil
		rows, err := tx.Query(ctx, `SELECT id, root, owner, source, stream, payload, created_at FROM memory_moments
			WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`, tenant, after, max(0, min(limit, maxRows)))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Moment
			if err := rows.Scan(&m.ID, &m.Root, &m.Owner, &m.Moment.Source, &m.Moment.Stream, &m.Moment.Payload, &m.At); err != nil {
				return err
			}
			all = append(all, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("moments of tenant %q: %w", tenant, err)
	}
	return all, nil
}

// Forget deletes moments of a tenant by their ids, which whoever made notes of
// them does not need any more, and returns how many were there.
func (s *Store) Forget(ctx context.Context, tenant string, ids []int64) (n int64, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		n, err = tx.Exec(ctx, `DELETE FROM memory_moments WHERE tenant = $1 AND `+tx.In("id", 2), tenant, ids)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget moments of tenant %q: %w", tenant, err)
	}
	return n, nil
}
