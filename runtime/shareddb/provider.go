package shareddb

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Snapshot implements [sharedmemory.Provider]: the stores of the call's tenant
// that it may see.
func (p *Provider) Snapshot(ctx context.Context, c sharedmemory.Context) (sharedmemory.Snapshot, error) {
	if ctx.Err() != nil {
		return sharedmemory.Snapshot{}, context.Cause(ctx)
	}
	var stores []sharedmemory.Store
	err := p.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		stores = nil
		if !storable(c.Tenant, maxName) {
			return nil
		}
		rows, err := tx.Query(ctx, `SELECT id, description, writable FROM shared_stores WHERE tenant = $1 ORDER BY id LIMIT $2`, c.Tenant, maxStores)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			s := store{db: p.db, tenant: c.Tenant}
			if err := rows.Scan(&s.info.ID, &s.info.Description, &s.info.Writable); err != nil {
				return err
			}
			if p.cfg.Allow == nil || p.cfg.Allow(c, s.info.ID) {
				stores = append(stores, s)
			}
		}
		return rows.Err()
	})
	switch {
	case ctx.Err() != nil:
		return sharedmemory.Snapshot{}, context.Cause(ctx)
	case errors.Is(err, ledger.ErrUnavailable):
		return sharedmemory.Snapshot{State: sharedmemory.Unavailable}, nil
	case err != nil:
		return sharedmemory.Snapshot{}, err
	}
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: slices.Values(stores)}, nil
}

// store is a store of one snapshot. What is in it is read anew each time.
type store struct {
	db     sqlstore.DB
	tenant string
	info   sharedmemory.Info
}

func (s store) Info() sharedmemory.Info { return s.info }

// told is err in the words of shared memory.
func told(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrNotFound):
		return &sharedmemory.StoreError{Kind: sharedmemory.StoreNotFound, Err: err}
	case errors.Is(err, ledger.ErrUnavailable):
		return &sharedmemory.StoreError{Kind: sharedmemory.Transient, Err: err}
	}
	return err
}

// List reads 500 rows at a time and holds no connection while they are used, so
// that a document that is put meanwhile may be in it or not.
func (s store) List(ctx context.Context, prefix string) iter.Seq2[sharedmemory.Entry, error] {
	return func(yield func(sharedmemory.Entry, error) bool) {
		if !storable(prefix, maxName*2) {
			return // no folder has such a name
		}
		after := ""
		for {
			var page []Document
			err := s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) (err error) {
				page, err = documents(ctx, tx, s.tenant, s.info.ID, prefix, after)
				return err
			})
			if err != nil {
				yield(sharedmemory.Entry{}, told(ctx, err))
				return
			}
			for _, d := range page {
				if !yield(sharedmemory.Entry{Path: d.Path, Bytes: new(d.Bytes), UpdatedAt: d.At.Format(time.RFC3339)}, nil) {
					return
				}
			}
			if len(page) < PageSize {
				return
			}
			after = page[len(page)-1].Path
		}
	}
}

func (s store) Read(ctx context.Context, path string) (sharedmemory.Value, error) {
	var d Document
	var found bool
	err := s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) (err error) {
		d, found, err = document(ctx, tx, s.tenant, s.info.ID, path)
		return err
	})
	switch {
	case err != nil:
		return sharedmemory.Value{}, told(ctx, err)
	case !found:
		return sharedmemory.Absent(), nil
	case d.Bytes > sharedmemory.MaxRead:
		return sharedmemory.Oversize(d.Bytes), nil
	}
	return sharedmemory.Found(sharedmemory.Document{Content: d.Content, UpdatedAt: d.At.Format(time.RFC3339)}), nil
}
