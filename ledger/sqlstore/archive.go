package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// archivePage is how many events Events reads at once.
const archivePage = 500

// Events implements ledger.Archive. f is called outside of any transaction.
func (s *Store) Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error {
	for next := max(from, 1); ; {
		var page []events.Sealed
		err := s.db.Read(ctx, func(ctx context.Context, tx Tx) (err error) {
			page, err = readArchive(ctx, tx, run, next, math.MaxInt64, archivePage)
			return err
		})
		if err != nil && !damaged(err) {
			return err
		}
		for _, e := range page {
			if err := f(e); err != nil {
				return err
			}
			next = e.Envelope().Seq + 1
		}
		if err != nil || len(page) < archivePage {
			return err
		}
	}
}

// PutBlob implements ledger.Archive.
func (s *Store) PutBlob(ctx context.Context, tenant, mediaType string, content []byte) (events.Hash, error) {
	h := events.Hash(sha256.Sum256(content))
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO blobs (tenant, hash, media_type, content, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant, hash) DO NOTHING`, tenant, h, mediaType, content, now)
		return err
	})
	if err != nil {
		return events.Hash{}, fmt.Errorf("put blob %s of %d bytes: %w", h, len(content), err)
	}
	return h, nil
}

// Blob implements ledger.Archive.
func (s *Store) Blob(ctx context.Context, tenant string, h events.Hash) (content []byte, mediaType string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		return tx.QueryRow(ctx, `SELECT content, media_type FROM blobs WHERE tenant = $1 AND hash = $2`, tenant, h).Scan(&content, &mediaType)
	})
	switch {
	case errors.Is(err, ErrNoRows):
		err = ledger.ErrNotFound
	case err == nil && sha256.Sum256(content) != h:
		err = events.ErrHash
	}
	if err != nil {
		return nil, "", fmt.Errorf("read blob %s: %w", h, err)
	}
	return content, mediaType, nil
}

// TenantKey implements ledger.Archive. Of two that make it at the same time one
// wins, and both return that one.
func (s *Store) TenantKey(ctx context.Context, tenant string) (key []byte, err error) {
	if !events.ValidName(tenant) {
		return nil, fmt.Errorf("key of tenant %q: want 1 to 64 letters, digits, _ and -", tenant)
	}
	read := func(ctx context.Context, tx Tx) error {
		return tx.QueryRow(ctx, `SELECT key FROM tenant_keys WHERE tenant = $1`, tenant).Scan(&key)
	}
	if err = s.db.Read(ctx, read); errors.Is(err, ErrNoRows) {
		fresh := make([]byte, 32)
		_, _ = rand.Read(fresh) // never fails
		err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO tenant_keys (tenant, key, created_at) VALUES ($1, $2, $3) ON CONFLICT (tenant) DO NOTHING`, tenant, fresh, now)
			if err != nil {
				return err
			}
			return read(ctx, tx)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("key of tenant %q: %w", tenant, err)
	}
	return key, nil
}
