package shareddb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// Kept says what became of what was put.
type Kept struct {
	Bytes int64
	// Changed is false if the same was there already: nothing was written.
	Changed bool
	// Redacted says that secrets, or what looks like them, were taken out.
	Redacted bool
}

// PutStore makes a store, or changes its description and whether it is said to
// be writable. by is who does, as the record names them.
func (p *Provider) PutStore(ctx context.Context, tenant string, info sharedmemory.Info, by string) (k Kept, err error) {
	d := p.cfg.Redactor.String(info.Description)
	k.Redacted = d != info.Description
	if err = errors.Join(checkTenant(tenant), checkStore(info.ID), checkBy(by)); err == nil && !storable(d, maxDescription) {
		err = fmt.Errorf("description: want at most %d bytes of text", maxDescription)
	}
	if err == nil {
		err = p.change(ctx, Change{Store: info.ID, Verb: VerbPut, Digest: digest(d), Bytes: int64(len(d)), By: by}, tenant, func(ctx context.Context, tx sqlstore.Tx, c Change) (bool, error) {
			if err := room(ctx, tx, maxStores, `SELECT count(*) FROM (SELECT 1 FROM shared_stores WHERE tenant = $1 AND id <> $2 LIMIT $3) AS s`, tenant, info.ID); err != nil {
				return false, err
			}
			n, err := tx.Exec(ctx, `
				INSERT INTO shared_stores (tenant, id, description, writable, put_by, put_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (tenant, id) DO UPDATE SET description = excluded.description, writable = excluded.writable, put_by = excluded.put_by, put_at = excluded.put_at
				WHERE shared_stores.description <> excluded.description OR shared_stores.writable <> excluded.writable`,
				tenant, info.ID, d, info.Writable, c.By, c.At)
			k.Changed, k.Bytes = n > 0, int64(len(d))
			return n > 0, err
		})
	}
	if err != nil {
		return Kept{}, p.cfg.Redactor.Error(fmt.Errorf("put store %q: %w", info.ID, err))
	}
	return k, nil
}

// Put keeps a document, in place of what is there under its path. Errors:
// [ErrNotFound] if there is no such store.
func (p *Provider) Put(ctx context.Context, tenant, store, path, content, by string) (k Kept, err error) {
	clean := p.cfg.Redactor.String(content)
	k.Redacted = clean != content
	if err = errors.Join(checkTenant(tenant), checkStore(store), p.checkPath(path), checkBy(by)); err == nil && len(clean) > sharedmemory.MaxRead {
		err = fmt.Errorf("it has %d bytes, and agents read at most %d: divide it", len(clean), sharedmemory.MaxRead)
	}
	if err == nil {
		err = p.change(ctx, Change{Store: store, Path: path, Verb: VerbPut, Digest: digest(clean), Bytes: int64(len(clean)), By: by}, tenant, func(ctx context.Context, tx sqlstore.Tx, c Change) (bool, error) {
			if err := exists(ctx, tx, tenant, store); err != nil {
				return false, err
			}
			if err := room(ctx, tx, maxDocuments, `SELECT count(*) FROM (SELECT 1 FROM shared_documents WHERE tenant = $1 AND store = $2 AND path <> $4 LIMIT $3) AS d`, tenant, store, path); err != nil {
				return false, err
			}
			n, err := tx.Exec(ctx, `
				INSERT INTO shared_documents (tenant, store, path, content, bytes, put_by, put_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (tenant, store, path) DO UPDATE SET content = excluded.content, bytes = excluded.bytes, put_by = excluded.put_by, put_at = excluded.put_at
				WHERE shared_documents.content <> excluded.content`,
				tenant, store, path, []byte(clean), len(clean), c.By, c.At)
			k.Changed, k.Bytes = n > 0, int64(len(clean))
			return n > 0, err
		})
	}
	if err != nil {
		return Kept{}, p.cfg.Redactor.Error(fmt.Errorf("put document %q into store %q: %w", path, store, err))
	}
	return k, nil
}

// Remove deletes a document. Errors: [ErrNotFound].
func (p *Provider) Remove(ctx context.Context, tenant, store, path, by string) error {
	err := errors.Join(checkTenant(tenant), checkStore(store), p.checkPath(path), checkBy(by))
	if err == nil {
		err = p.change(ctx, Change{Store: store, Path: path, Verb: VerbRemove, By: by}, tenant, func(ctx context.Context, tx sqlstore.Tx, _ Change) (bool, error) {
			n, err := tx.Exec(ctx, `DELETE FROM shared_documents WHERE tenant = $1 AND store = $2 AND path = $3`, tenant, store, path)
			return true, missing(n, err)
		})
	}
	if err != nil {
		return p.cfg.Redactor.Error(fmt.Errorf("remove document %q of store %q: %w", path, store, err))
	}
	return nil
}

// RemoveStore deletes a store with its documents, and returns how many it had.
// Errors: [ErrNotFound].
func (p *Provider) RemoveStore(ctx context.Context, tenant, store, by string) (documents int64, err error) {
	if err = errors.Join(checkTenant(tenant), checkStore(store), checkBy(by)); err == nil {
		err = p.change(ctx, Change{Store: store, Verb: VerbRemove, By: by}, tenant, func(ctx context.Context, tx sqlstore.Tx, _ Change) (bool, error) {
			if err := lock(ctx, tx, tenant, store); err != nil {
				return false, err
			}
			var err error
			if documents, err = tx.Exec(ctx, `DELETE FROM shared_documents WHERE tenant = $1 AND store = $2`, tenant, store); err != nil {
				return false, err
			}
			n, err := tx.Exec(ctx, `DELETE FROM shared_stores WHERE tenant = $1 AND id = $2`, tenant, store)
			return true, missing(n, err)
		})
	}
	if err != nil {
		return 0, p.cfg.Redactor.Error(fmt.Errorf("remove store %q: %w", store, err))
	}
	return documents, nil
}

// change runs do and, if it changed anything, records who did.
func (p *Provider) change(ctx context.Context, c Change, tenant string, do func(context.Context, sqlstore.Tx, Change) (bool, error)) error {
	c.By = p.cfg.Redactor.String(c.By)
	return p.db.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		c.At = now
		changed, err := do(ctx, tx, c)
		if err != nil || !changed {
			return err
		}
		var hash events.Hash
		copy(hash[:], c.Digest)
		_, err = tx.Exec(ctx, `INSERT INTO shared_changes (tenant, store, path, verb, digest, bytes, by_whom, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			tenant, c.Store, c.Path, c.Verb, hash, c.Bytes, c.By, c.At)
		if err != nil {
			return fmt.Errorf("record the change: %w", err)
		}
		return nil
	})
}

func checkBy(by string) error {
	if by == "" || !storable(by, maxName) {
		return errors.New("nobody is named: the record says who did it")
	}
	return nil
}

func digest(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// exists keeps a store from being removed until the transaction ends.
func exists(ctx context.Context, tx sqlstore.Tx, tenant, store string) error {
	return there(ctx, tx, `SELECT id FROM shared_stores WHERE tenant = $1 AND id = $2 FOR SHARE`, tenant, store)
}

// lock waits for those that are putting documents into a store, and keeps others
// from doing so.
func lock(ctx context.Context, tx sqlstore.Tx, tenant, store string) error {
	return there(ctx, tx, `SELECT id FROM shared_stores WHERE tenant = $1 AND id = $2 FOR UPDATE`, tenant, store)
}

func there(ctx context.Context, tx sqlstore.Tx, q string, args ...any) error {
	var id string
	err := tx.QueryRow(ctx, q, args...).Scan(&id)
	if errors.Is(err, sqlstore.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// room refuses what would be more than most; q counts what else there is.
func room(ctx context.Context, tx sqlstore.Tx, most int, q string, tenant, store string, more ...any) error {
	var n int
	if err := tx.QueryRow(ctx, q, append([]any{tenant, store, most}, more...)...).Scan(&n); err != nil {
		return err
	}
	if n >= most {
		return fmt.Errorf("there are %d already, which is the most: remove some first", n)
	}
	return nil
}

func missing(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}
